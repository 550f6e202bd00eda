// Training curves of the runs of one or two defences, a line for each seed.

const SVG = "http://www.w3.org/2000/svg";
const NONE = "";
const QUANTITIES = [
  ["train_loss", "Training loss"],
  ["val_loss", "Validation loss"],
  ["val_top1", "Validation accuracy"],
  ["val_leakage_nats", "Leakage bound [nats]"],
];
const DASHES = ["", "6 3", "2 3", "8 3 2 3"];
const BOX = { width: 340, height: 220, left: 52, right: 10, top: 12, bottom: 34 };
const [RIGHT, BOTTOM] = [BOX.width - BOX.right, BOX.height - BOX.bottom];

function drawn(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const points = (run, quantity) =>
  run.epoch.map((epoch, i) => [epoch, run[quantity][i]]).filter(([, value]) => value !== null);

// A scale from values to pixels, with a little room where all values are the same.
function scale(values, from, to) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const span = high - low || Math.abs(high) || 1;
  const start = high === low ? low - span / 2 : low;
  const place = (value) => from + ((value - start) / span) * (to - from);
  return Object.assign(place, { low: start, high: start + span });
}

// Four or five round numbers within a range.
function ticks(low, high) {
  const raw = (high - low) / 4;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= raw);
  const first = Math.ceil(low / step);
  const count = Math.floor(high / step) - first + 1;
  const exact = (value) => Number(value.toPrecision(12));
  return Array.from({ length: count }, (_, i) => exact((first + i) * step));
}

const written = (x, y, anchor, text) => drawn("text", { x, y, "text-anchor": anchor }, text);

function gridLine(value, y) {
  const ends = { x1: BOX.left, x2: RIGHT, y1: y(value), y2: y(value) };
  return [
    drawn("line", { class: "grid", ...ends }),
    written(BOX.left - 6, y(value) + 4, "end", String(value)),
  ];
}

function axes(x, y) {
  const across = ticks(y.low, y.high).flatMap((value) => gridLine(value, y));
  const epochs = ticks(x.low, x.high).filter(Number.isInteger);
  const along = epochs.map((epoch) => written(x(epoch), BOTTOM + 16, "middle", String(epoch)));
  return [...across, ...along, written((BOX.left + RIGHT) / 2, BOX.height - 4, "middle", "epoch")];
}

function line(run, place, quantity, x, y) {
  const dash = DASHES[DATA.seeds.indexOf(run.seed) % DASHES.length];
  const found = points(run, quantity).map(([epoch, value]) => `${x(epoch)},${y(value)}`);
  const alone = found.length === 1; // a line of one point is not drawn, one back to it is a dot
  const path = (alone ? [...found, ...found] : found).join(" ");
  const title = drawn("title", {}, `${readable(run.defence)}, seed ${run.seed}`);
  const kind = alone ? " alone" : "";
  const look = { class: `curve curve-${place}${kind}`, "stroke-dasharray": alone ? "" : dash };
  return drawn("polyline", { ...look, points: path }, title);
}

function inWords(title, runs, quantity) {
  const last = runs.map((run) => [run, points(run, quantity).at(-1)]).filter(([, point]) => point);
  const ends = last.map(
    ([run, [, value]]) => `${readable(run.defence)} seed ${run.seed} ${significant(value)}`);
  return `${title} by epoch; at the end: ${ends.join(", ")}`;
}

function chart([quantity, title], groups) {
  const runs = groups.flat();
  const all = runs.flatMap((run) => points(run, quantity));
  const caption = element("figcaption", {}, title);
  const figure = element("figure", { class: "chart" }, caption);
  if (!all.length) {
    figure.append(element("p", {}, "No finite value."));
    return figure;
  }
  const x = scale(all.map(([epoch]) => epoch), BOX.left, RIGHT);
  const y = scale(all.map(([, value]) => value), BOTTOM, BOX.top);
  const lines = groups.flatMap((group, place) =>
    group.map((run) => line(run, place, quantity, x, y)));
  const box = { viewBox: `0 0 ${BOX.width} ${BOX.height}`, role: "img" };
  const label = inWords(title, runs, quantity);
  figure.append(drawn("svg", { ...box, "aria-label": label }, ...axes(x, y), ...lines));
  return figure;
}

// A short line and what it stands for: colours are defences, dashes are seeds.
function keyEntry(kind, dash, text) {
  const ends = { x1: 0, x2: 28, y1: 5, y2: 5 };
  const sample = drawn("line", { class: `curve curve-${kind}`, "stroke-dasharray": dash, ...ends });
  const box = { viewBox: "0 0 28 10", class: "stroke", "aria-hidden": "true" };
  return element("span", {}, drawn("svg", box, sample), text);
}

function drawKey(names) {
  const colours = names.map((name, place) => keyEntry(place, "", readable(name)));
  const dashes = DATA.seeds.map((seed, place) =>
    keyEntry("seed", DASHES[place % DASHES.length], `seed ${seed}`));
  byId("curve-key").replaceChildren(...colours, ...dashes);
}

function drawCurves() {
  const chosen = [byId("curve-a").value, byId("curve-b").value].filter((name) => name !== NONE);
  const names = [...new Set(chosen)];
  const groups = names.map((name) => DATA.runs.filter((run) => run.defence === name));
  drawKey(names);
  byId("curves").replaceChildren(...QUANTITIES.map((quantity) => chart(quantity, groups)));
}

offer("curve-a", named(DATA.defences), DATA.defences.at(-1));
offer("curve-b", [[NONE, "nothing"], ...named(DATA.defences)], DATA.defences[0]);
onChange(["curve-a", "curve-b"], drawCurves);
drawCurves();
