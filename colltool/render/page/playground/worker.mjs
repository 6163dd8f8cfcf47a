// Runs colltool in Pyodide: a command line in, what it prints and its exit code out.
import { loadPyodide } from "./pyodide/pyodide.mjs";

const FILES = "/files";

async function bytesOf(name) {
  const answer = await fetch(new URL(name, import.meta.url));
  if (!answer.ok) throw new Error(`${name}: ${answer.status}`);
  return new Uint8Array(await answer.arrayBuffer());
}

async function start() {
  postMessage({ stage: "Loading Python ..." });
  const [python, packages, core] = await Promise.all([
    loadPyodide({ stdin: () => null }), bytesOf("colltool.zip"), bytesOf("pydantic_core.whl"),
  ]);
  postMessage({ stage: "Loading colltool ..." });
  const extractDir = python.runPython("import site; site.getsitepackages()[0]");
  python.unpackArchive(packages, "zip", { extractDir });
  python.unpackArchive(core, "whl", { extractDir });
  python.FS.mkdir(FILES);
  python.FS.chdir(FILES);
  const { add_up_as, answer } = python.pyimport("colltool.commands.in_page");
  add_up_as("WRITTEN_BY");
  postMessage({ stage: "Ready." });
  return { python, answer };
}

const ready = start();
ready.catch((error) => postMessage({ stage: `Could not start: ${error.message}` }));

onmessage = async ({ data }) => {
  const { python, answer } = await ready;
  if (data.name) {
    python.FS.writeFile(`${FILES}/${data.name}`, data.bytes);
    return;
  }
  const before = performance.now();
  const found = JSON.parse(answer(data.line));
  const written = found.written.map((name) => ({ name, bytes: python.FS.readFile(`${FILES}/${name}`) }));
  postMessage({ ...found, ...data, written, seconds: (performance.now() - before) / 1000 });
};
