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
  return Object.assign((value) => from + ((value - start) / span) * (to - from), { low: start, high: start + span });
}

// Four or five round numbers within a range.
function ticks(low, high) {
  const raw = (high - low) / 4;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= raw);
  const count = Math.floor(high / step) - Math.ceil(low / step) + 1;
  return Array.from({ length: count }, (_, i) => Number(((Math.ceil(low / step) + i) * step).toPrecision(12)));
}

function axes(x, y, lastEpoch) {
  const bottom = BOX.height - BOX.bottom;
  const across = ticks(y.low, y.high).flatMap((value) => [
    drawn("line", { class: "grid", x1: BOX.left, x2: BOX.width - BOX.right, y1: y(value), y2: y(value) }),
    drawn("text", { x: BOX.left - 6, y: y(value) + 4, "text-anchor": "end" }, String(value))]);
  const along = ticks(x.low, x.high).filter(Number.isInteger).map((value) =>
    drawn("text", { x: x(value), y: bottom + 16, "text-anchor": "middle" }, String(value)));
  const name = drawn("text", { x: (BOX.left + BOX.width - BOX.right) / 2, y: BOX.height - 4, "text-anchor": "middle" }, "epoch");
  return [...across, ...(lastEpoch > 1 ? along : []), name];
}

function line(run, place, quantity, x, y) {
  const dash = DASHES[DATA.seeds.indexOf(run.seed) % DASHES.length];
  const path = points(run, quantity).map(([epoch, value]) => `${x(epoch)},${y(value)}`).join(" ");
  const title = drawn("title", {}, `${readable(run.defence)}, seed ${run.seed}`);
  return drawn("polyline", { class: `curve curve-${place}`, points: path, "stroke-dasharray": dash }, title);
}

function inWords(title, runs, quantity) {
  const last = runs.map((run) => [run, points(run, quantity).at(-1)]).filter(([, point]) => point);
  const ends = last.map(([run, point]) => `${readable(run.defence)} seed ${run.seed} ${significant(point[1])}`);
  return `${title} by epoch; at the end: ${ends.join(", ")}`;
}

function chart([quantity, title], groups) {
  const runs = groups.flat();
  const all = runs.flatMap((run) => points(run, quantity));
  const caption = element("figcaption", {}, title);
  if (!all.length) return element("figure", { class: "chart" }, caption, element("p", {}, "No finite value."));
  const x = scale(all.map(([epoch]) => epoch), BOX.left, BOX.width - BOX.right);
  const y = scale(all.map(([, value]) => value), BOX.height - BOX.bottom, BOX.top);
  const lines = groups.flatMap((group, place) => group.map((run) => line(run, place, quantity, x, y)));
  const box = { viewBox: `0 0 ${BOX.width} ${BOX.height}`, role: "img", "aria-label": inWords(title, runs, quantity) };
  return element("figure", { class: "chart" }, caption, drawn("svg", box, ...axes(x, y, x.high), ...lines));
}

function keyEntry(defence, place) {
  const stroke = drawn("svg", { viewBox: "0 0 28 10", class: "stroke", "aria-hidden": "true" },
    drawn("line", { class: `curve curve-${place}`, x1: 0, x2: 28, y1: 5, y2: 5 }));
  return element("span", {}, stroke, readable(defence));
}

function seedEntry(seed, place) {
  const stroke = drawn("svg", { viewBox: "0 0 28 10", class: "stroke", "aria-hidden": "true" },
    drawn("line", { class: "curve curve-seed", x1: 0, x2: 28, y1: 5, y2: 5, "stroke-dasharray": DASHES[place % DASHES.length] }));
  return element("span", {}, stroke, `seed ${seed}`);
}

function drawCurves() {
  const chosen = [byId("curve-a").value, byId("curve-b").value].filter((name) => name !== NONE);
  const names = [...new Set(chosen)];
  const groups = names.map((name) => DATA.runs.filter((run) => run.defence === name));
  byId("curve-key").replaceChildren(...names.map(keyEntry), ...DATA.seeds.map(seedEntry));
  byId("curves").replaceChildren(...QUANTITIES.map((quantity) => chart(quantity, groups)));
}

offer("curve-a", named(DATA.defences), DATA.defences.at(-1));
offer("curve-b", [[NONE, "nothing"], ...named(DATA.defences)], DATA.defences[0]);
onChange(["curve-a", "curve-b"], drawCurves);
drawCurves();
