"use strict";
(function () {
  // The language is remembered where the browser lets a page remember anything.
  var KEY = "conformance-report-language";
  function remembered() { try { return localStorage.getItem(KEY); } catch (e) { return null; } }
  function remember(value) { try { localStorage.setItem(KEY, value); } catch (e) { /* a sandboxed frame */ } }
  var radios = document.querySelectorAll('input[name="language"]');
  radios.forEach(function (radio) {
    if (radio.value === remembered()) radio.checked = true;
    radio.addEventListener("change", function () {
      document.documentElement.lang = radio.value;
      remember(radio.value);
    });
    if (radio.checked) document.documentElement.lang = radio.value;
  });

  // A link to a claim opens it.
  function open() {
    var target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
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
