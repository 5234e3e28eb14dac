(() => {
  "use strict";
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const views = new Map();

  const records = ({ columns, rows }) => rows.map((row) => Object.fromEntries(columns.map((name, at) => [name, row[at]])));

  const options = {
    ast: true, // an interpreter of expressions: the page forbids eval
    actions: false,
    renderer: "svg",
    defaultStyle: false,
    tooltip: { disableDefaultStyle: true },
  };

  const draw = async (holder) => {
    const { spec, tables } = charts[holder.id];
    spec.datasets = Object.fromEntries(Object.entries(tables).map(([name, table]) => [name, records(table)]));
    try {
      views.set(holder.id, (await vegaEmbed(holder, spec, options)).view);
      holder.dataset.drawn = "yes";
    } catch (error) {
      holder.textContent = `This chart could not be drawn: ${error.message}`;
      holder.dataset.drawn = "no";
    }
  };

  const set = (id, signal, value) => {
    const view = views.get(id);
    return view && view.signal(signal, value).runAsync();
  };

  const controlled = (element) => [...element.closest("figure").querySelectorAll(".chart")];

  for (const menu of document.querySelectorAll("select")) {
    menu.addEventListener("change", () => {
      for (const holder of controlled(menu)) set(holder.id, "depth", Number(menu.value));
    });
  }

  for (const slider of document.querySelectorAll("input[type=range]")) {
    const labels = JSON.parse(slider.dataset.labels);
    const stills = JSON.parse(slider.dataset.stills);
    const said = slider.closest("figure").querySelector("output");
    const play = slider.closest("figure").querySelector("button");
    let timer = null;

    const show = () => {
      said.textContent = labels[slider.value];
      slider.setAttribute("aria-valuetext", labels[slider.value]);
      for (const holder of controlled(slider)) set(holder.id, "look", stills[holder.dataset.place][slider.value]);
    };
    const stop = () => {
      clearInterval(timer);
      timer = null;
      play.textContent = "Play";
    };
    const next = () => {
      if (Number(slider.value) >= Number(slider.max)) return stop();
      slider.value = Number(slider.value) + 1;
      show();
    };
    slider.addEventListener("input", () => { stop(); show(); });
    play.addEventListener("click", () => {
      if (timer) return stop();
      if (Number(slider.value) >= Number(slider.max)) { slider.value = 0; show(); }
      play.textContent = "Pause";
      timer = setInterval(next, 700);
    });
    slider.disabled = play.disabled = labels.length < 2;
  }

  // On paper nobody can open anything.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const one of opened) one.open = true;
  });
  addEventListener("afterprint", () => { for (const one of opened) one.open = false; });

  Promise.all([...document.querySelectorAll(".chart")].map(draw)).then(() => { document.body.dataset.ready = "yes"; });
})();
