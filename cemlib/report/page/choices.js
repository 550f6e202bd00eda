// What the other scripts share: the data, elements, and lists to choose from.
// Text from the study enters the page as text (textContent, setAttribute), never as HTML.

const DATA = JSON.parse(document.getElementById("data").textContent);
const WORST = "worst_case";

const byId = (id) => document.getElementById(id);
const readable = (name) => name.replaceAll("_", " ");

// A number with so many digits that count; null is what JSON holds of an infinite one.
function significant(value, digits = 3) {
  if (value === null) return "∞";
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-6 || size >= 10 ** digits)
    ? String(Number(value.toPrecision(digits)))
    : value.toPrecision(digits);
}

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Fills a list with [value, text] pairs; calls back now and whenever another is chosen.
function offer(id, pairs, chosen) {
  const list = byId(id);
  list.replaceChildren(...pairs.map(([value, text]) => new Option(text, value)));
  if (chosen !== undefined && pairs.some(([value]) => value === chosen)) list.value = chosen;
  return list;
}

const named = (names) => names.map((name) => [name, readable(name)]);
const seeds = () => DATA.pictured.map((seed) => [String(seed), String(seed)]);
const attacks = () => [[WORST, "strongest on one release"], ...named(DATA.names)];

function onChange(ids, act) {
  for (const id of ids) byId(id).addEventListener("change", act);
}

// The result of an attack; "worst_case" stands for what was strongest against that run.
function result(defence, seed, attack, knowledge) {
  const same = (row) =>
    row.defence === defence && String(row.seed) === seed && row.knowledge === knowledge;
  const wanted = attack === WORST ? DATA.strongest.find(same)?.strongest : attack;
  return DATA.attacks.find((row) => same(row) && row.attack === wanted);
}

const pictureOf = (number) => `data:image/png;base64,${DATA.pictures[number]}`;

function scoresOf(image) {
  if (image.mse === undefined) return "";
  const psnr = image.psnr === null ? "∞" : image.psnr.toFixed(1);
  return `MSE ${significant(image.mse)}${image.mark}, SSIM ${image.ssim.toFixed(3)}, PSNR ${psnr} dB`;
}

function nameOf(image) {
  if (image.index === undefined) return "";
  return `test image ${image.index}, class ${DATA.classes[image.label] ?? image.label}`;
}

// What needs no script is folded away, what needs one comes out.
for (const part of document.querySelectorAll("[data-scripted]")) part.hidden = false;
for (const part of document.querySelectorAll("[data-static]")) part.open = false;
