// The summary table: sorted by any column, filtered by attack and knowledge.

const ALL = "";
const table = byId("summary-table");
const rows = [...table.tBodies[0].rows];

const orderOf = (row, column) => row.cells[column].dataset.order;
const asNumber = (text) => (text === "inf" ? Infinity : Number(text));

// Cells without a value stay at the end in either direction.
function compare(a, b, column, numeric, direction) {
  const [x, y] = [orderOf(a, column), orderOf(b, column)];
  if (x === "" || y === "") return (x === "") - (y === "");
  const [left, right] = numeric ? [asNumber(x), asNumber(y)] : [x, y];
  return direction * ((left > right) - (left < right));
}

function sortBy(head) {
  const direction = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
  const numeric = head.hasAttribute("data-numeric");
  const sorted = rows.toSorted((a, b) => compare(a, b, head.cellIndex, numeric, direction));
  table.tBodies[0].append(...sorted);
}

function addSorting(head) {
  const button = element("button", { type: "button" }, head.textContent);
  button.addEventListener("click", () => sortBy(head));
  head.replaceChildren(button);
}

function filter() {
  const [attack, knowledge] = [byId("filter-attack").value, byId("filter-knowledge").value];
  const fits = (row) =>
    (attack === ALL || row.dataset.attack === attack) &&
    (knowledge === ALL || row.dataset.knowledge === knowledge);
  for (const row of rows) row.hidden = !fits(row);
  table.classList.toggle("one-attack", attack !== ALL);
  table.classList.toggle("one-knowledge", knowledge !== ALL);
  byId("filter-count").textContent = `${rows.filter(fits).length} of ${rows.length} rows`;
}

const distinct = (key) => [...new Set(rows.map((row) => row.dataset[key]))];

for (const head of table.tHead.rows[0].cells) addSorting(head);
offer("filter-attack", [[ALL, "all"], ...named(distinct("attack"))], WORST);
offer("filter-knowledge", [[ALL, "any"], ...named(distinct("knowledge"))]);
onChange(["filter-attack", "filter-knowledge"], filter);
filter();
