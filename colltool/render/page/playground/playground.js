"use strict";
// The page: the question in the address, files that were dropped, and a worker that runs colltool.

const at = (id) => document.getElementById(id);
const held = new Map(); // name -> bytes of the files that were dropped
let worker = null;
let asked = 0; // number of the latest question; answers to earlier ones are not shown
let started = 0; // when the worker started, until it has answered once

function start() {
  started = performance.now();
  worker = new Worker("worker.mjs", { type: "module" });
  worker.onmessage = ({ data }) => {
    if (data.stage) at("state").textContent = data.stage;
    else if (data.number === asked) show(data);
  };
  worker.onerror = (event) => {
    at("state").textContent = `Could not start: ${event.message || "worker.mjs or a file beside it cannot be read"}`;
  };
  for (const [name, bytes] of held) worker.postMessage({ name, bytes });
}

function show({ out, err, code, seconds, written }) {
  at("stop").hidden = true;
  at("answer").hidden = false;
  at("out").textContent = out;
  at("err").textContent = err;
  at("code").textContent = `exit code ${code}`;
  const loading = started ? `; ${((performance.now() - started) / 1000).toFixed(1)} s with loading` : "";
  started = 0;
  at("state").textContent = `Answered in ${seconds.toFixed(2)} s${loading}.`;
  at("written").replaceChildren(...written.map(({ name, bytes }) => {
    const item = document.createElement("li");
    const link = Object.assign(document.createElement("a"), { download: name.split("/").pop(), textContent: name });
    link.href = URL.createObjectURL(new Blob([bytes]));
    item.append("written: ", link);
    return item;
  }));
  dispatchEvent(new Event("answered"));
}

function question() {
  return new URLSearchParams(location.hash.slice(1)).get("q");
}

function run() {
  const line = question();
  if (line === null) return;
  at("line").value = line;
  asked += 1;
  at("stop").hidden = false;
  if (!started) at("state").textContent = "Working ...";
  worker.postMessage({ line, number: asked });
}

function ask(line) {
  const address = `#${new URLSearchParams({ q: line })}`;
  if (location.hash === address) run();
  else location.hash = address; // hashchange runs it
}

async function hold(files) {
  for (const file of files) {
    const bytes = new Uint8Array(await file.arrayBuffer());
    held.set(file.name, bytes);
    worker.postMessage({ name: file.name, bytes });
    const name = /\s|['"\\]/.test(file.name) ? `'${file.name.replaceAll("'", "'\\''")}'` : file.name;
    const lines = /\.ya?ml$/i.test(file.name)
      ? [`price ar -f ${name}`, `crossover ar -f ${name}`, `expect -f ${name}`]
      : [`doctor ${name}`];
    for (const line of lines) {
      const item = document.createElement("li");
      const link = Object.assign(document.createElement("a"), { textContent: line });
      link.href = `#${new URLSearchParams({ q: line })}`;
      item.append(link);
      at("held").append(item);
    }
    if (files.length === 1) ask(lines[0]);
  }
}

if (location.protocol === "file:") {
  at("state").textContent = "A browser does not start Python from a file. In the folder above this one, type: "
    + "python3 -m http.server   and open http://localhost:8000/playground/" + location.hash;
} else {
  at("form").onsubmit = (event) => { event.preventDefault(); ask(at("line").value.trim()); };
  at("form-json").onclick = () => {
    const line = at("line").value.trim();
    ask(/\s--format(\s|=)/.test(line) ? line : `${line} --format json`);
  };
  at("stop").onclick = () => {
    worker.terminate();
    asked += 1;
    at("stop").hidden = true;
    start();
  };
  at("files").onchange = () => hold(at("files").files);
  addEventListener("dragover", (event) => { event.preventDefault(); document.body.classList.add("over"); });
  addEventListener("dragleave", () => document.body.classList.remove("over"));
  addEventListener("drop", (event) => {
    event.preventDefault();
    document.body.classList.remove("over");
    hold(event.dataTransfer.files);
  });
  addEventListener("hashchange", run);
  start();
  run();
}
