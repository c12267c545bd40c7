"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const make = (tag, attributes = {}, text = "") => {
    const found = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) found.setAttribute(name, value);
    found.textContent = text;
    return found;
  };
  const UNITS = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
  const time = (s) => {
    const [size, unit] = UNITS.find(([size]) => s >= size) || UNITS[3];
    return `${+(s / size).toPrecision(3)} ${unit}`;
  };

  // rows: [class, color, event, line, seconds]
  const flame = (rows, measure) => {
    const root = { time: 0, below: new Map() };
    for (const [kind, color, event, line, value] of rows) {
      let box = root;
      box.time += value;
      for (const name of [kind, event, line].filter(Boolean)) {
        if (!box.below.has(name)) box.below.set(name, { name, color, time: 0, below: new Map() });
        box = box.below.get(name);
        box.time += value;
      }
    }
    const place = byId("flame"), says = byId("flame-says");
    place.replaceChildren();
    let deepest = 0;
    const draw = (box, left, depth, path) => {
      for (const one of [...box.below.values()].sort((a, b) => b.time - a.time)) {
        const width = one.time / root.time;
        if (width >= 0.002) {
          const names = [...path, one.name];
          const text = `${names.join(" › ")}: ${measure(one.time)}, ${(100 * width).toPrecision(3)} %`;
          const button = make("button", { class: "k" + one.color, title: text, "aria-label": text }, one.name);
          Object.assign(button.style, { left: 100 * left + "%", width: 100 * width + "%", top: 1.6 * depth + "rem" });
          button.onfocus = button.onmouseenter = button.onclick = () => (says.textContent = text);
          place.append(button);
          deepest = Math.max(deepest, depth + 1);
          draw(one, left, depth + 1, names);
        }
        left += width;
      }
    };
    draw(root, 0, 0, []);
    place.style.height = 1.6 * deepest + "rem";
    place.closest("section").hidden = !root.time;
  };
  flame(data.flame.map(([...row]) => (row.push(row.pop() / 1e12), row)), time);
})();
