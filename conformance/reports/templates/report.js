(function () {
  // A link to a claim opens it.
  function open() {
    var name = location.hash.slice(1);
    try { name = decodeURIComponent(name); } catch (e) { /* as it is */ }
    var target = name && document.getElementById(name);
    if (!target) {  // a claim's id, as a table of many runs links to it
      target = Array.prototype.find.call(document.querySelectorAll("[data-claim]"), function (element) {
        return element.dataset.claim === name;
      });
      if (target) target.scrollIntoView();
    }
    if (target && target.tagName === "DETAILS") target.open = true;
  }
  addEventListener("hashchange", open);
  open();

  // Claims that fit each of: one of the verdicts, one of the rungs, every word.
  var form = document.getElementById("filter");
  var count = document.getElementById("count");
  var claims = Array.prototype.map.call(document.querySelectorAll(".claim"), function (element) {
    return {
      element: element, verdicts: element.dataset.verdict.trim().split(" "), rung: element.dataset.rung, text: null
    };
  });
  function chosen(name) {
    return Array.prototype.map.call(form.querySelectorAll('input[name="' + name + '"]:checked'), function (box) {
      return box.value;
    });
  }
  function filter() {
    var verdicts = chosen("verdict"), rungs = chosen("rung"), shown = 0;
    var words = form.elements.text.value.toLowerCase().split(/\s+/).filter(Boolean);
    claims.forEach(function (claim) {
      if (words.length && claim.text === null) claim.text = claim.element.textContent.toLowerCase();
      var fits = (!verdicts.length || verdicts.some(function (v) { return claim.verdicts.indexOf(v) >= 0; })) &&
        (!rungs.length || rungs.indexOf(claim.rung) >= 0) &&
        words.every(function (word) { return claim.text.indexOf(word) >= 0; });
      claim.element.hidden = !fits;
      if (fits) shown += 1;
    });
    count.textContent = shown === claims.length ? String(shown) : shown + " / " + claims.length;
  }
  form.hidden = false;
  form.addEventListener("input", filter);
  form.addEventListener("submit", function (event) { event.preventDefault(); filter(); });
  filter();
})();
