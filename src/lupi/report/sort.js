"use strict";
// A click on a heading sorts its table, and another click reverses the order. Without this script the page is complete but cannot be sorted.
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
}
