(function () {
  function all(selector, root) { return Array.prototype.slice.call((root || document).querySelectorAll(selector)); }
  var form = document.getElementById("filter");
  var count = document.getElementById("count");
  var NAMES = ["verdict", "rung", "question", "level"];

  // Claims that fit each of: one of the verdicts, rungs, questions and levels that are chosen; every word.
  var claims = all(".claim").map(function (element) {
    var data = element.dataset;
    return {
      element: element, text: null,
      verdict: data.verdict.trim().split(" "), rung: [data.rung], question: [data.question], level: [data.level]
    };
  });
  function chosen(name) {
    return all('input[name="' + name + '"]:checked', form).map(function (box) { return box.value; });
  }
  function filter() {
    var wanted = NAMES.map(chosen), shown = 0;
    var words = form.elements.text.value.toLowerCase().split(/\s+/).filter(Boolean);
    claims.forEach(function (claim) {
      if (words.length && claim.text === null) claim.text = claim.element.textContent.toLowerCase();
      var fits = NAMES.every(function (name, i) {
        return !wanted[i].length || wanted[i].some(function (value) { return claim[name].indexOf(value) >= 0; });
      }) && words.every(function (word) { return claim.text.indexOf(word) >= 0; });
      claim.element.hidden = !fits;
      if (fits) shown += 1;
    });
    count.textContent = shown === claims.length ? String(shown) : shown + " / " + claims.length;
  }

  // The filter is kept in the address, behind "#", where a page from a disk may keep something.
  function keep() {
    var parts = NAMES.filter(function (name) { return chosen(name).length; }).map(function (name) {
      return name + "=" + chosen(name).map(encodeURIComponent).join(",");
    });
    if (form.elements.text.value) parts.push("text=" + encodeURIComponent(form.elements.text.value));
    try { history.replaceState(null, "", "#" + parts.join("&")); } catch (e) { /* a sandboxed frame */ }
  }
  function restore(address) {
    address.split("&").forEach(function (part) {
      var name = part.split("=")[0], values = part.slice(name.length + 1);
      if (name === "text") form.elements.text.value = decoded(values);
      else if (NAMES.indexOf(name) >= 0) {
        values = values.split(",").map(decoded);
        all('input[name="' + name + '"]', form).forEach(function (box) { box.checked = values.indexOf(box.value) >= 0; });
      }
    });
    filter();
    document.getElementById("claims").scrollIntoView();
  }
  function decoded(text) { try { return decodeURIComponent(text); } catch (e) { return text; } }

  // A link to a claim opens it: by its place in this page, or by its id, as a table of many runs links to it.
  function open() {
    var name = location.hash.slice(1);
    if (!name) return;
    var target = document.getElementById(name) || all("[data-claim]").filter(function (element) {
      return element.dataset.claim === decoded(name);
    })[0];
    if (target && target.tagName === "DETAILS") { target.hidden = false; target.open = true; target.scrollIntoView(); }
    else if (!target && name.indexOf("=") > 0) restore(name);
  }
  form.hidden = false;
  form.addEventListener("input", function () { filter(); keep(); });
  form.addEventListener("submit", function (event) { event.preventDefault(); filter(); keep(); });
  filter();
  addEventListener("hashchange", open);

  // What a tensor of the drawing is, beside it.
  var about = document.getElementById("about");
  all(".flow a, .flow g").forEach(function (box) {
    function tell() { about.hidden = false; about.textContent = box.querySelector("title").textContent; }
    box.addEventListener("mouseenter", tell);
    box.addEventListener("focus", tell);
  });

  // Arrays as pictures. An element lies at (row, column) of a plane; the axes before the last two choose the plane.
  function show(value) { return typeof value === "number" ? Number(value.toPrecision(6)).toString() : value; }
  function color(value, largest) {
    if (!isFinite(value)) return "#7a1fa2";
    var part = largest ? Math.max(-1, Math.min(1, value / largest)) : 0, end = part < 0 ? [33, 102, 172] : [178, 24, 43];
    return "rgb(" + [247, 247, 247].map(function (white, i) {
      return Math.round(white + (end[i] - white) * Math.abs(part));
    }) + ")";
  }
  function largest(values) {
    return values.reduce(function (most, v) { return isFinite(v) ? Math.max(most, Math.abs(v)) : most; }, 0);
  }
  var painted = [];
  function repaint() { painted.forEach(function (paint) { paint(); }); }
  all('input[name="theme"]').forEach(function (radio) { radio.addEventListener("change", repaint); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  function draw(place) {
    var data = JSON.parse(place.dataset.arrays);
    var axes = data.axes, sizes = data.sizes, spot = data.spot;
    if (axes.length === 1) { axes = [""].concat(axes); sizes = [1].concat(sizes); spot = [0].concat(spot); }
    var got = data.got.map(Number), expected = data.expected.map(Number);
    var difference = got.map(function (value, i) { return value === expected[i] ? 0 : value - expected[i]; });
    var last = axes.length - 1, rows = sizes[last - 1], columns = sizes[last];
    var plane = spot.slice(0, last - 1);
    var both = largest(got.concat(expected)), apart = largest(difference);
    var cell = Math.max(3, Math.min(24, Math.floor(240 / columns), Math.floor(320 / rows)));
    var figure = document.getElementById("picture").content.firstElementChild.cloneNode(true);
    var canvases = all("canvas", figure), reading = figure.querySelector(".reading");

    function start() {
      return plane.reduce(function (at, index, axis) { return at * sizes[axis] + index; }, 0) * rows * columns;
    }
    function named(row, column) {
      return axes.map(function (axis, i) {
        return axis && axis + " " + (i < last - 1 ? plane[i] : i === last - 1 ? row : column);
      }).filter(Boolean).concat(Object.keys(data.fixed).map(function (axis) { return axis + " " + data.fixed[axis]; })).join(", ");
    }
    function read(row, column) {
      var at = start() + row * columns + column;
      reading.textContent = named(row, column) + ":  " + show(data.got[at]) + "  |  " + show(data.expected[at]) +
        "  |  " + show(difference[at]);
    }
    function paint() {
      [[got, both], [expected, both], [difference, apart]].forEach(function (drawn, k) {
        var canvas = canvases[k], pen = canvas.getContext("2d"), margin = 34;
        canvas.width = columns * cell + margin;
        canvas.height = rows * cell + margin;
        pen.font = "11px sans-serif";
        pen.fillStyle = getComputedStyle(reading).color;
        pen.fillText(axes[last] + " →", margin, 10);
        pen.save(); pen.translate(10, margin); pen.rotate(Math.PI / 2); pen.fillText(axes[last - 1] ? axes[last - 1] + " →" : "", 0, 0); pen.restore();
        for (var i = 0; cell >= 12 && i < Math.max(rows, columns); i += 1) {
          if (i < columns) pen.fillText(i, margin + i * cell + 2, 26);
          if (i < rows) pen.fillText(i, 18, margin + i * cell + cell / 2 + 4);
        }
        for (var row = 0; row < rows; row += 1) for (var column = 0; column < columns; column += 1) {
          pen.fillStyle = color(drawn[0][start() + row * columns + column], drawn[1]);
          pen.fillRect(margin + column * cell, margin + row * cell, cell - (cell > 6), cell - (cell > 6));
        }
        if (plane.every(function (index, axis) { return index === spot[axis]; })) {
          pen.strokeStyle = "#000"; pen.lineWidth = 2;
          pen.strokeRect(margin + spot[last] * cell, margin + spot[last - 1] * cell, cell - 1, cell - 1);
        }
        canvas.setAttribute("aria-label", canvas.previousElementSibling.textContent + ", " + axes.join(" "));
        canvas.onmousemove = function (event) {
          var row = Math.floor((event.offsetY - margin) / cell), column = Math.floor((event.offsetX - margin) / cell);
          if (row >= 0 && row < rows && column >= 0 && column < columns) read(row, column);
        };
      });
      read(Math.min(spot[last - 1], rows - 1), spot[last]);
    }
    plane.forEach(function (_, axis) {
      var label = document.createElement("label"), select = document.createElement("select");
      for (var i = 0; i < sizes[axis]; i += 1) select.add(new Option(i, i, false, i === plane[axis]));
      select.addEventListener("change", function () { plane[axis] = Number(select.value); paint(); });
      label.append(axes[axis] + " ", select);
      figure.querySelector(".planes").append(label);
    });
    profiles(figure.querySelector(".profiles"), axes, sizes, difference);
    place.replaceWith(figure);
    painted.push(paint);
    paint();  // in the page, whose colours it takes
  }
  // The largest difference at each index of an axis: where in a tensor the error lives.
  function profiles(place, axes, sizes, difference) {
    axes.forEach(function (axis, k) {
      if (!axis || sizes[k] < 2) return;
      var after = sizes.slice(k + 1).reduce(function (n, size) { return n * size; }, 1), most = [];
      difference.forEach(function (value, i) {
        var index = Math.floor(i / after) % sizes[k];
        most[index] = Math.max(most[index] || 0, isFinite(value) ? Math.abs(value) : Infinity);
      });
      var top = largest(most) || 1, bars = document.createElement("div"), name = document.createElement("span");
      bars.className = "profile";
      name.textContent = axis;
      bars.append(name);
      most.forEach(function (value, i) {
        var bar = document.createElement("b");
        bar.style.height = Math.max(2, Math.min(100, 100 * value / top)) + "%";
        bar.title = axis + " " + i + ": " + show(value);
        bars.append(bar);
      });
      place.append(bars);
    });
  }
  function drawWithin(element) { all(".arrays", element).forEach(draw); }
  all(".problem").forEach(function (problem) {
    if (problem.open) drawWithin(problem);
    problem.addEventListener("toggle", function () { if (problem.open) drawWithin(problem); });
  });

  // On paper everything that is broken is open.
  addEventListener("beforeprint", function () {
    all(".problem").forEach(function (problem) { problem.open = true; drawWithin(problem); });
  });
  open();
})();
