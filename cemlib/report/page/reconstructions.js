// The same images under every defence, and two of the pictures wiped over each other.

const ORIGINAL = "";
const gallery = byId("shown");

// Each defence with its result under the chosen attack.
function shownResults() {
  const chosen = ["seed", "attack", "knowledge"].map((key) => byId(`shown-${key}`).value);
  return DATA.defences.map((defence) => [defence, result(defence, ...chosen)]);
}

const imagesOf = (found) => found?.shown ?? [];

// Those of the first defence that has any: the originals are the same everywhere.
const firstImages = (results) =>
  results.map(([, found]) => imagesOf(found)).find((images) => images.length) ?? [];

const titleOf = (defence) => readable(defence || "original");

function tile(defence, image, place) {
  const number = defence === ORIGINAL ? image.original : image.found;
  const scores = defence === ORIGINAL ? "" : scoresOf(image);
  const words = [titleOf(defence), `image ${place + 1}`, nameOf(image), scores];
  const label = words.filter(Boolean).join(", ");
  const button = element("button", { type: "button", class: "tile", "aria-label": label },
    element("img", { src: pictureOf(number), alt: "" }));
  button.title = label;
  Object.assign(button.dataset, { defence, place });
  button.addEventListener("click", () => choose(defence, place));
  return button;
}

function galleryRow(defence, images, words) {
  const tiles = images.map((image, place) => tile(defence, image, place));
  const name = element("span", { class: "name" }, titleOf(defence));
  const scores = element("span", { class: "scores" }, words);
  return element("div", { class: "row", role: "group", "aria-label": titleOf(defence) },
    element("div", { class: "label" }, name, scores),
    element("div", { class: "tiles" }, ...tiles));
}

function wordsOf(found) {
  if (!found) return "failed: the strongest attack is not known";
  if (!imagesOf(found).length) return `failed: ${found.reason}`;
  const by = byId("shown-attack").value === WORST ? `${readable(found.attack)}: ` : "";
  return `${by}MSE ${significant(found.mean[0])}${found.mark}, SSIM ${found.mean[1].toFixed(3)}`;
}

const placeName = (image, place) => nameOf(image) || `image ${place + 1}`;

function drawGallery() {
  const results = shownResults();
  const originals = firstImages(results);
  gallery.replaceChildren(
    galleryRow(ORIGINAL, originals, ""),
    ...results.map(([defence, found]) => galleryRow(defence, imagesOf(found), wordsOf(found))));
  const images = originals.map((image, place) => [String(place), placeName(image, place)]);
  offer("wipe-image", images, byId("wipe-image").value);
  drawWipe();
}

// A tile that is chosen stands on the right of the comparison; an original only says which image.
function choose(defence, place) {
  byId("wipe-image").value = String(place);
  if (defence !== ORIGINAL) byId("wipe-b").value = defence;
  drawWipe();
}

function pictured(defence, place) {
  const results = shownResults();
  if (defence === ORIGINAL) return firstImages(results)[place];
  return imagesOf(results.find(([name]) => name === defence)?.[1])[place];
}

function drawSide(id, defence, place) {
  const image = pictured(defence, place);
  const picture = byId(id);
  picture.hidden = !image;
  if (!image) return `${readable(defence)} failed`;
  picture.src = pictureOf(defence === ORIGINAL ? image.original : image.found);
  picture.alt = `${titleOf(defence)} of ${placeName(image, place)}`;
  if (defence === ORIGINAL) return "the original";
  return [readable(defence), scoresOf(image)].filter(Boolean).join(": ");
}

function drawWipe() {
  const place = Number(byId("wipe-image").value);
  const [left, right] = [byId("wipe-a").value, byId("wipe-b").value];
  const words = [drawSide("wipe-left", left, place), drawSide("wipe-right", right, place)];
  byId("wipe-words").textContent = `Left ${words[0]}. Right ${words[1]}.`;
  mark(right, place);
}

function mark(defence, place) {
  for (const button of gallery.querySelectorAll(".tile")) {
    const here = button.dataset.place === String(place);
    const chosen = here && button.dataset.defence === defence;
    button.setAttribute("aria-pressed", String(chosen));
    button.tabIndex = chosen ? 0 : -1;
  }
  if (gallery.querySelector("[tabindex='0']")) return;
  gallery.querySelector(".tile")?.setAttribute("tabindex", "0");
}

// One tile is reached by Tab; the arrows go on from there.
const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

function move(event) {
  const step = STEPS[event.key];
  const from = event.target.closest(".tile");
  if (!step || !from) return;
  event.preventDefault();
  const lines = [...gallery.querySelectorAll(".tiles")].filter((line) => line.children.length);
  const line = lines[lines.indexOf(from.parentElement) + step[0]];
  const next = line?.children[Number(from.dataset.place) + step[1]];
  if (!next) return;
  choose(next.dataset.defence, Number(next.dataset.place));
  next.tabIndex = 0;
  next.focus();
}

function wipe() {
  byId("wipe-at").closest(".compare").style.setProperty("--at", `${byId("wipe-at").value}%`);
}

offer("shown-attack", attacks());
offer("shown-knowledge", named(DATA.knowledges));
offer("shown-seed", seeds());
offer("wipe-a", [[ORIGINAL, "original"], ...named(DATA.defences)]);
offer("wipe-b", named(DATA.defences), DATA.defences.at(-1));
onChange(["shown-attack", "shown-knowledge", "shown-seed"], drawGallery);
onChange(["wipe-image", "wipe-a", "wipe-b"], drawWipe);
gallery.addEventListener("keydown", move);
byId("wipe-at").addEventListener("input", wipe);
wipe();
drawGallery();
