"""A compiled model: our passes run eagerly, and the user's graph is compiled once, with us or without."""

import torch

import anisoscope as an


class Plain(torch.nn.Module):
    """Of no package whose shapes the tests check: the checks themselves cannot be compiled."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = torch.nn.Embedding(32, 16)
        self.blocks = torch.nn.ModuleList(torch.nn.Linear(16, 16) for _ in range(2))
        self.head = torch.nn.Linear(16, 32)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        h = self.tokens(ids)
        for block in self.blocks:
            h = h + block(h).tanh()
        return self.head(h)


def test_a_compiled_model_is_watched_without_compiling_anything_anew(tmp_path):
    graphs = []

    def counting(graph, example_inputs):
        graphs.append(graph)
        return graph.forward

    def train(watched: bool) -> torch.nn.Module:
        torch._dynamo.reset()
        graphs.clear()
        torch.manual_seed(0)
        model = Plain()
        compiled = torch.compile(model, backend=counting)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        batch = torch.randint(32, (4, 8), generator=torch.Generator().manual_seed(0))

        def one_step() -> None:
            compiled(batch).logsumexp(-1).mean().backward()
            optimizer.step()
            optimizer.zero_grad()

        one_step()
        before = len(graphs)
        assert before > 0
        if not watched:
            one_step()
            one_step()
        else:
            windows = an.Windows.from_ids(torch.randint(32, (32, 8)))
            with an.Scope(compiled, windows, every=1, num_steps=2, run=tmp_path / "run", ranks=(2,)) as scope:
                for _ in range(2):
                    one_step()
                    scope.step()
            assert set(an.open_run(tmp_path / "run").metrics()["step"].to_pylist()) == {0, 1, 2}
        assert len(graphs) == before
        return model

    plain, seen = train(False), train(True)
    for one, other in zip(plain.parameters(), seen.parameters(), strict=True):
        assert torch.equal(one, other)
