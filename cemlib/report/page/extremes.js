// The images that a defence protects least and most.

const QUANTILE_NAMES = ["lowest", "5 %", "25 %", "median", "75 %", "95 %", "highest"];

const RECOGNISED = new Map([[true, "class recognised"], [false, "class not recognised"]]);

function pair(image) {
  const known = RECOGNISED.get(image.recognised);
  const lines = [nameOf(image), scoresOf(image), known].filter(Boolean);
  const pictures = [["original", image.original], ["reconstruction", image.found]];
  return element("figure", { class: "pair" },
    element("div", {}, ...pictures.map(([name, number]) =>
      element("img", { src: pictureOf(number), alt: `${name}, ${nameOf(image)}` }))),
    element("figcaption", {}, ...lines.map((line) => element("span", {}, line))));
}

function half(title, images) {
  return element("div", { class: "half" }, element("h3", {}, title),
    element("div", { class: "pairs" }, ...images.map(pair)));
}

function spreadOf(found) {
  const parts = QUANTILE_NAMES.map(
    (name, place) => `${name} ${significant(found.quantiles[place])}`);
  return `${readable(found.attack)}${found.mark}, MSE of ${found.images} images: ${parts.join(", ")}.`;
}

function whyNothing(found) {
  if (!found) return "failed: the strongest attack is not known";
  return found.reason ? `failed: ${found.reason}` : "this older result kept no pictures";
}

function drawEnds() {
  const chosen = ["defence", "seed", "attack", "knowledge"].map((key) => byId(`ends-${key}`).value);
  const found = result(...chosen);
  const images = found?.extremes ?? [];
  const middle = Math.ceil(images.length / 2);
  byId("ends-words").textContent = images.length ? spreadOf(found) : whyNothing(found);
  const halves = [
    half("Least protected: lowest MSE", images.slice(0, middle)),
    half("Most protected: highest MSE", images.slice(middle)),
  ];
  byId("ends").replaceChildren(...(images.length ? halves : []));
}

offer("ends-defence", named(DATA.defences), DATA.defences.at(-1));
offer("ends-attack", attacks());
offer("ends-knowledge", named(DATA.knowledges));
offer("ends-seed", seeds());
onChange(["ends-defence", "ends-attack", "ends-knowledge", "ends-seed"], drawEnds);
drawEnds();
