(function () {
  // Rows that fit one of the outcomes and every word, in both tables.
  var form = document.getElementById("filter");
  var count = document.getElementById("count");
  var rows = Array.prototype.slice.call(document.querySelectorAll(".rows tbody tr"));
  var grid = document.getElementById("grid");
  var gridRows = grid ? Array.prototype.slice.call(grid.tBodies[0].rows) : [];
  function filter() {
    var chosen = Array.prototype.map.call(form.querySelectorAll("input:checked"), function (box) { return box.value; });
    var words = form.elements.text.value.toLowerCase().split(/\s+/).filter(Boolean);
    var shown = 0;
    rows.forEach(function (row, i) {
      var text = row.textContent.toLowerCase();
      var fits = (!chosen.length || chosen.indexOf(row.dataset.outcome) >= 0) &&
        words.every(function (word) { return text.indexOf(word) >= 0; });
      row.hidden = !fits;
      if (gridRows[i]) gridRows[i].hidden = !fits;
      if (fits) shown += 1;
    });
    count.textContent = shown === rows.length ? String(shown) : shown + " / " + rows.length;
  }
  form.hidden = false;
  form.addEventListener("input", filter);
  form.addEventListener("submit", function (event) { event.preventDefault(); filter(); });
  filter();

  // A cell says what it is, and leads to its claim in the report of its row.
  if (!grid) return;
  var heads = grid.tHead.rows[1].cells;
  function claimOf(cell) { return heads[cell.cellIndex]; }
  grid.addEventListener("mouseover", function (event) {
    var cell = event.target.closest("tbody td[class]");
    if (cell) cell.title = cell.parentNode.cells[0].textContent + ": " + claimOf(cell).textContent + "\n" + claimOf(cell).title;
  });
  grid.addEventListener("click", function (event) {
    var cell = event.target.closest("tbody td[class]");
    var link = cell && cell.parentNode.querySelector("th a");
    if (link) location.href = link.getAttribute("href") + "#" + encodeURIComponent(claimOf(cell).textContent);
  });
})();
