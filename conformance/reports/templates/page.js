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
})();
