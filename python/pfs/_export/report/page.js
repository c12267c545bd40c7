"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const make = (tag, attributes = {}, ...inner) => {
    const svg = ["svg", "rect", "path", "line"].includes(tag);
    const found = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) found.setAttribute(name, value);
    found.append(...inner);
    return found;
  };
  const number = (value) => (value >= 100 ? Math.round(value).toLocaleString("en") : String(+value.toPrecision(3)));
  const percent = (share) => (100 * share).toFixed(share < 0.0995 ? 1 : 0) + " %";
  const time = (s) => {
    const [size, unit] = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]].find(([size], i) => s >= size || i === 3);
    return number(s / size) + " " + unit;
  };
  // parts: [color, share]
  const bar = (parts) => {
    const svg = make("svg", { class: "bar", viewBox: "0 0 100 1", preserveAspectRatio: "none", "aria-hidden": "true" });
    let left = 0;
    for (const [color, share] of parts) {
      svg.append(make("rect", { class: "k" + color, x: left, width: 100 * share, height: 1 }));
      left += 100 * share;
    }
    return svg;
  };

  // rows: [class, color, event, line, amount]
  const flame = (rows, measure) => {
    const root = { time: 0, below: new Map() };
    for (const [kind, color, event, line, value] of rows) {
      let box = root;
      box.time += value;
      for (const name of [kind, event === kind ? "" : event, line].filter(Boolean)) {
        if (!box.below.has(name)) box.below.set(name, { name, color, time: 0, below: new Map() });
        box = box.below.get(name);
        box.time += value;
      }
    }
    const place = byId("flame");
    let deepest = 0;
    const draw = (box, left, depth, path) => {
      for (const one of [...box.below.values()].sort((a, b) => b.time - a.time)) {
        const width = one.time / root.time;
        if (width >= 0.002) {
          const names = [...path, one.name];
          const text = `${names.join(" › ")}: ${measure(one.time)}, ${percent(width)}`;
          const button = make("button", { class: "k" + one.color, title: text, "aria-label": text }, one.name);
          Object.assign(button.style, { left: 100 * left + "%", width: 100 * width + "%", top: 1.6 * depth + "rem" });
          button.onfocus = button.onmouseenter = button.onclick = () => (byId("flame-says").textContent = text);
          place.append(button);
          deepest = Math.max(deepest, depth + 1);
          draw(one, left, depth + 1, names);
        }
        left += width;
      }
    };
    place.replaceChildren();
    byId("flame-says").textContent = "";
    draw(root, 0, 0, []);
    place.style.height = 1.6 * deepest + "rem";
    place.closest("section").hidden = !root.time;
  };

  const s = data.samples;
  if (!s) return flame(data.flame.map((row) => [...row.slice(0, 4), row[4] / 1e12]), time);

  const shown = s.classes.map(([, , idle]) => !idle);
  const chosen = new Map(); // place in a key -> text
  let from = 0, to = s.bins;
  const chart = byId("chart");
  const seconds = () => (to - from) * s.width;
  const clock = (bin) => {
    const text = new Date(1000 * (s.begin + bin * s.width)).toISOString();
    return text.slice(11, seconds() < 20 ? 21 : 19);
  };

  // Returns the amounts of each key within the chosen time, and of each class by bin.
  const added = () => {
    const filtered = chosen.size > 0;
    const sums = s.chart.map((amounts) => (filtered ? new Array(s.bins).fill(0) : amounts));
    const amounts = s.keys.map((key, k) => {
      for (const [place, text] of chosen) if (key[place] !== text) return 0;
      let at = 0, sum = 0;
      for (let i = 0; i < s.cells[k].length; i += 2) {
        at += s.cells[k][i];
        const first = at * s.factor, end = Math.min(first + s.factor, s.bins), each = s.cells[k][i + 1] / (end - first);
        sum += each * Math.max(0, Math.min(end, to) - Math.max(first, from));
        if (filtered) for (let bin = first; bin < end; bin++) sums[key[0]][bin] += each;
      }
      return sum * s.unit;
    });
    return [amounts, sums];
  };

  const draw = (sums) => {
    const scale = s.unit / s.width;
    const tops = new Array(s.bins).fill(0);
    const paths = [];
    sums.forEach((amounts, kind) => {
      if (!shown[kind]) return;
      const lower = [...tops];
      let d = "";
      amounts.forEach((amount, bin) => {
        tops[bin] += amount * scale;
        d += `${bin ? "L" : "M"}${bin} ${-tops[bin].toFixed(3)}H${bin + 1}`;
      });
      for (let bin = s.bins - 1; bin >= 0; bin--) d += `V${-lower[bin].toFixed(3)}H${bin}`;
      paths.push(make("path", { class: "k" + s.classes[kind][1], d: d + "Z" }));
    });
    const most = Math.max(...tops, s.processors, 0.1) * 1.05;
    const svg = make("svg", { viewBox: `0 ${-most} ${s.bins} ${most}`, preserveAspectRatio: "none", "aria-hidden": "true" });
    const labels = [];
    const step = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 1e4].find((step) => most / step <= 6);
    for (let y = 0; y <= most; y += step) {
      svg.append(make("line", { class: "grid", x1: 0, x2: s.bins, y1: -y, y2: -y }));
      const label = make("span", { class: "y" }, number(y));
      label.style.top = 100 * (1 - y / most) + "%";
      labels.push(label);
    }
    svg.append(...paths);
    if (s.processors) {
      svg.append(make("line", { class: "cpus", x1: 0, x2: s.bins, y1: -s.processors, y2: -s.processors }));
      const label = make("span", { class: "at" }, "processors");
      label.style.top = 100 * (1 - s.processors / most) + "%";
      labels.push(label);
    }
    const ticks = chart.clientWidth < 500 ? 3 : 6;
    for (let i = 0; i <= ticks; i++) {
      const label = make("span", { class: "x" }, clock((i * s.bins) / ticks));
      label.style.left = (100 * i) / ticks + "%";
      if (i === ticks) label.style.transform = "translateX(-100%)";
      labels.push(label);
    }
    for (const [x, width] of [[0, from], [to, s.bins - to]])
      svg.append(make("rect", { class: "out", x, width, y: -most, height: most }));
    chart.querySelectorAll("svg, span").forEach((old) => old.remove());
    chart.prepend(svg, ...labels);
  };

  const table = (sums) => {
    const size = Math.ceil((to - from) / 24);
    const rows = [];
    for (let bin = from; bin < to; bin += size) {
      const end = Math.min(bin + size, to);
      const values = sums.map((amounts) => (amounts.slice(bin, end).reduce((a, b) => a + b, 0) * s.unit) / ((end - bin) * s.width));
      rows.push(make("tr", {}, make("th", { scope: "row" }, clock(bin)), ...values.map((value) => make("td", {}, number(value)))));
    }
    const heads = ["from", ...s.classes.map(([words]) => words)].map((text) => make("th", { scope: "col" }, text));
    byId("chart-table").replaceChildren(make("table", {}, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...rows)));
  };

  // Returns texts at a place of the keys with their amounts by class, the largest first.
  const ranked = (amounts, place, only = () => true) => {
    const found = new Map();
    s.keys.forEach((key, k) => {
      if (!amounts[k] || !key[place] || !shown[key[0]] || !only(key)) return;
      if (!found.has(key[place])) found.set(key[place], { text: key[place], all: 0, kinds: s.classes.map(() => 0) });
      const one = found.get(key[place]);
      one.all += amounts[k];
      one.kinds[key[0]] += amounts[k];
    });
    return [...found.values()].sort((a, b) => b.all - a.all);
  };
  const row = (one, most, whole, place) => {
    const name = make("button", { "aria-pressed": chosen.get(place) === one.text }, s.texts[one.text]);
    name.onclick = () => {
      if (chosen.get(place) === one.text) chosen.delete(place);
      else chosen.set(place, one.text);
      update();
      document.querySelector(`[data-list="${place - 1}"] button[aria-pressed=true]`)?.focus();
    };
    const parts = one.kinds.map((amount, kind) => [s.classes[kind][1], amount / most]).filter(([, share]) => share);
    return make("tr", {}, make("td", { class: "text" }, name), make("td", { class: "bar" }, bar(parts)),
      make("td", {}, number(one.all / seconds())), make("td", {}, percent(one.all / whole)));
  };
  const rows = (found, most, whole, place) => found.slice(0, most).map((one) => row(one, found[0].all, whole, place));

  const locks = (amounts, whole) => {
    const side = (title, found, place) =>
      make("table", {}, make("thead", {}, make("tr", {}, make("th", { scope: "col", class: "text" }, title), make("td"),
        make("th", { scope: "col" }, "threads"), make("th", { scope: "col" }, "share"))),
      make("tbody", {}, ...rows(found, 6, whole, place)));
    const blocks = ranked(amounts, 1, (key) => key[6]).slice(0, 5).map((lock) => {
      const of = (key) => key[6] && key[1] === lock.text;
      return make("div", { class: "lock", role: "group", "aria-label": s.texts[lock.text] },
        make("div", {}, side("Threads wait at", ranked(amounts, 3, of), 3)),
        make("b", {}, s.texts[lock.text], make("br"), number(lock.all / seconds()) + " threads"),
        make("div", {}, side("Meanwhile the holder", ranked(amounts, 6, of), 6)));
    });
    byId("graph").replaceChildren(...blocks);
    byId("graph").closest("section").hidden = !blocks.length;
  };

  const update = () => {
    const [amounts, sums] = added();
    const whole = s.keys.reduce((sum, key, k) => sum + (shown[key[0]] ? amounts[k] : 0), 0) || 1;
    draw(sums);
    table(sums);
    document.querySelectorAll("[data-list]").forEach((list) => {
      const place = 1 + +list.dataset.list;
      list.querySelector("tbody").replaceChildren(...rows(ranked(amounts, place), data.limit, whole, place));
    });
    locks(amounts, whole);
    flame(s.keys.map((key, k) => [...s.classes[key[0]], s.texts[key[1]], s.texts[key[3]], shown[key[0]] ? amounts[k] : 0])
      .map(([words, color, , event, line, amount]) => [words, color, event, line, amount]).filter((row) => row[4]),
    (amount) => number(amount / seconds()) + " threads");
    const only = [...chosen.values()].map((text) => s.texts[text]).join(", ");
    byId("range").textContent = `${clock(from)} to ${clock(to)} UTC, ${number(seconds())} s: ` +
      `${number(whole / seconds())} active threads${only && ", only " + only}`;
    byId("whole").disabled = from === 0 && to === s.bins && !chosen.size;
    handles.forEach((handle, i) => {
      const bin = i ? to : from;
      handle.style.left = (100 * bin) / s.bins + "%";
      handle.setAttribute("aria-valuenow", bin);
      handle.setAttribute("aria-valuetext", clock(bin));
    });
  };
  const zoom = (a, b) => {
    from = Math.max(0, Math.min(a, s.bins - 1));
    to = Math.min(s.bins, Math.max(b, from + 1));
    update();
  };
  const everything = () => (chosen.clear(), zoom(0, s.bins));

  const handles = ["Begin", "End"].map((name, i) => {
    const handle = make("div", { class: "handle", role: "slider", tabindex: 0, "aria-label": `${name} of the time`,
      "aria-valuemin": 0, "aria-valuemax": s.bins });
    handle.onkeydown = (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, ArrowDown: -1, ArrowUp: 1, PageDown: -10, PageUp: 10, Home: -1e9, End: 1e9 }[event.key];
      if (!step) return;
      event.preventDefault();
      const by = step * (event.shiftKey ? 10 : 1);
      if (i) zoom(from, Math.max(to + by, from + 1));
      else zoom(Math.min(from + by, to - 1), to);
    };
    return handle;
  });
  document.addEventListener("keydown", (event) => event.key === "Escape" && everything());
  const at = (event) => {
    const box = chart.getBoundingClientRect();
    return ((event.clientX - box.left) / box.width) * s.bins;
  };
  let start = null; // the other end of what is being drawn
  chart.onpointerdown = (event) => {
    if (event.button) return;
    const handle = handles.indexOf(event.target);
    start = handle < 0 ? Math.floor(at(event)) : handle ? from : to;
    chart.setPointerCapture(event.pointerId);
  };
  chart.onpointermove = (event) => {
    if (start === null) return;
    const now = at(event);
    if (now > start) zoom(start, Math.ceil(now));
    else zoom(Math.floor(now), start);
  };
  chart.onpointerup = (event) => (chart.onpointermove(event), (start = null));
  chart.onpointercancel = () => (start = null);
  byId("whole").onclick = everything;
  byId("legend").append(...s.classes.map(([words, color], kind) => {
    const box = make("input", { type: "checkbox" });
    box.checked = shown[kind];
    box.onchange = () => ((shown[kind] = box.checked), update());
    return make("li", {}, make("label", {}, box, bar([[color, 1]]), words));
  }));
  chart.append(...handles);
  document.querySelectorAll("[data-script]").forEach((part) => (part.hidden = false));
  new ResizeObserver(() => draw(added()[1])).observe(chart);
  update();
})();
