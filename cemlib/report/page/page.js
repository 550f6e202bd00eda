// Sorts tables by any column, and filters the summary by attack and knowledge.
// Text from the study enters the page as text, never as HTML.

// The number with which a cell begins; NaN for words.
const numberOf = (text) => Number.parseFloat(text.replace("∞", "Infinity"));

const isNumeric = (cells) => cells.some((text) => !Number.isNaN(numberOf(text)));

// Cells without a number stay at the end in either direction.
function compare(a, b, numeric, direction) {
  if (!numeric) return direction * a.localeCompare(b);
  const [x, y] = [numberOf(a), numberOf(b)];
  if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
  return direction * ((x > y) - (x < y));
}

function sortBy(head) {
  const body = head.closest("table").tBodies[0];
  const direction = head.ariaSort === "ascending" ? -1 : 1;
  for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
  const textOf = (row) => row.cells[head.cellIndex].textContent;
  const rows = [...body.rows];
  const numeric = isNumeric(rows.map(textOf));
  body.append(...rows.toSorted((a, b) => compare(textOf(a), textOf(b), numeric, direction)));
}

for (const head of document.querySelectorAll("thead th")) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = head.textContent;
  button.addEventListener("click", () => sortBy(head));
  head.replaceChildren(button);
}

const rows = [...document.querySelectorAll("#summary tbody tr")];
const [attack, knowledge] = ["attack", "knowledge"].map((id) => document.getElementById(id));

// Offers what stands in a column of the summary.
function offer(list, column) {
  const found = new Set(rows.map((row) => row.cells[column].textContent));
  list.replaceChildren(new Option("all", ""), ...[...found].map((text) => new Option(text)));
  list.addEventListener("change", filter);
}

function filter() {
  for (const row of rows) {
    const fits = (list, column) => !list.value || row.cells[column].textContent === list.value;
    row.hidden = !(fits(attack, 1) && fits(knowledge, 2));
  }
}

offer(attack, 1);
offer(knowledge, 2);
attack.value = "worst case";
document.getElementById("filters").hidden = false;
filter();
