"""`python -m benchmarks [NAME...]`: every bench_NAME.py, one question each, into a dated page of results."""

import sys
from datetime import date
from importlib import import_module
from pathlib import Path

from .harness import machine

HERE = Path(__file__).parent


def main(names: list[str]) -> int:
    known = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    parts = [f"# Results of {date.today()}", machine()]
    for name in names or known:
        print(f"benchmark {name} ...", file=sys.stderr)
        module = import_module(f".bench_{name}", __package__)
        parts += [f"## {(module.__doc__ or name).splitlines()[0]}", module.run()]
    out = HERE / "results" / f"{date.today()}{'-' + '-'.join(names) if names else ''}.md"
    out.parent.mkdir(exist_ok=True)
    out.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    print("\n\n".join(parts))
    print(f"\n{out}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
