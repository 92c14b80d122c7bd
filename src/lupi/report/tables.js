"use strict";
// A click on a heading sorts its table, and another click reverses the order. Above a long table, a box filters its rows and a button
// downloads those that are shown as CSV. Without this script the page is complete, but tables cannot be sorted, filtered and downloaded.
const long = 10;
const collator = new Intl.Collator("en", { numeric: true });
for (const table of document.querySelectorAll("table")) {
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    const number = heading.classList.contains("number");
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const before = heading.ariaSort;
      const down = before === "none" ? number : before === "ascending"; // numbers start with the largest
      const keys = new Map();
      for (const row of table.tBodies[0].rows) {
        const cell = row.cells[column];
        const text = cell.textContent;
        keys.set(row, number ? Number.parseFloat(cell.dataset.value ?? text) : text);
      }
      const absent = (key) => Number.isNaN(key) || key === "–";
      const rows = [...keys.keys()].sort((one, other) => {
        const [a, b] = [keys.get(one), keys.get(other)];
        if (absent(a) || absent(b)) return absent(a) - absent(b); // last in either order
        return (number ? (a > b) - (a < b) : collator.compare(a, b)) * (down ? -1 : 1);
      });
      table.tBodies[0].append(...rows);
      for (const each of headings) each.ariaSort = "none";
      heading.ariaSort = down ? "descending" : "ascending";
    });
  });
  if (table.tBodies[0].rows.length > long) addTools(table);
}

function addTools(table) {
  const [tools, box, count, button] = ["div", "input", "output", "button"].map((name) => document.createElement(name));
  const total = table.tBodies[0].rows.length;
  tools.className = "tools";
  box.type = "search";
  box.placeholder = "Filter rows";
  box.setAttribute("aria-label", "Filter rows");
  box.addEventListener("input", () => {
    const text = box.value.trim().toLowerCase();
    let shown = 0;
    for (const row of table.tBodies[0].rows) {
      row.hidden = ![...row.cells].some((cell) => cell.textContent.toLowerCase().includes(text));
      if (!row.hidden) shown += 1;
    }
    count.textContent = text ? `${shown} of ${total} rows` : "";
  });
  button.type = "button";
  button.textContent = "Download CSV";
  button.addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([toCsv(table)], { type: "text/csv" }));
    link.download = `${table.closest("section").querySelector("h2").textContent.toLowerCase().replace(/\W+/g, "-")}.csv`;
    link.click();
    URL.revokeObjectURL(link.href);
  });
  tools.append(box, button, count);
  table.parentElement.before(tools);
}

function toCsv(table) {
  const quote = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const safe = (text) => (/^[=+\-@\t\r\n＝＋－＠]/.test(text) ? `'${text}` : text); // a spreadsheet runs no formula
  const headings = [...table.tHead.rows[0].cells].map((cell) => safe(cell.querySelector("span").textContent));
  const rows = [...table.tBodies[0].rows].filter((row) => !row.hidden);
  const lines = rows.map((row) =>
    [...row.cells].map((cell) => (cell.classList.contains("n") ? (cell.dataset.value ?? cell.textContent) : safe(cell.textContent))),
  );
  return [headings, ...lines].map((line) => `${line.map(quote).join(",")}\n`).join("");
}
