// Compiles the modules of zip archives for Pyodide's Python, which a page would do on every visit:
//   node compile.mjs PYODIDE.mjs ARCHIVE.zip ...
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [pyodide, ...archives] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(pyodide));
const python = await loadPyodide();
const compile = python.runPython(`
import zipfile
from importlib._bootstrap_external import _code_to_hash_pyc

def compiled():
    with zipfile.ZipFile("/found.zip") as found, zipfile.ZipFile("/made.zip", "w", zipfile.ZIP_DEFLATED) as made:
        for file in found.infolist():
            content = found.read(file)
            if file.filename.endswith(".py"):
                code = compile(content, file.filename, "exec", dont_inherit=True)
                # no source stands beside it to be compared with
                content = bytes(_code_to_hash_pyc(code, bytes(8), False))
                file.filename += "c"
            made.writestr(file, content)

compiled
`);
for (const archive of archives) {
  python.FS.writeFile("/found.zip", new Uint8Array(readFileSync(archive)));
  compile();
  writeFileSync(archive, python.FS.readFile("/made.zip"));
}
