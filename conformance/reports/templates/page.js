"use strict";
(function () {
  // Language and colours are remembered where the browser lets a page remember anything.
  function remembered(name) { try { return localStorage.getItem("conformance-report-" + name); } catch (e) { return null; } }
  function remember(name, value) { try { localStorage.setItem("conformance-report-" + name, value); } catch (e) { /* a sandboxed frame */ } }
  ["language", "theme"].forEach(function (name) {
    document.querySelectorAll('input[name="' + name + '"]').forEach(function (radio) {
      function chosen() { if (name === "language") document.documentElement.lang = radio.value; }
      if (radio.value === remembered(name)) radio.checked = true;
      radio.addEventListener("change", function () { chosen(); remember(name, radio.value); });
      if (radio.checked) chosen();
    });
  });

  // What is wider than its place is reached and moved by keyboard as well.
  function reachable() {
    document.querySelectorAll(".scroll:not([role])").forEach(function (place) {
      if (place.scrollWidth > place.clientWidth || place.scrollHeight > place.clientHeight) place.tabIndex = 0;
      else place.removeAttribute("tabindex");
    });
  }
  addEventListener("resize", reachable);
  document.addEventListener("toggle", reachable, true);
  reachable();
})();
