// Reads with jsroot for conformance.py: each line of standard input is a request, each line of standard output an answer.
import { createInterface } from 'node:readline';
import { openFile } from 'jsroot/io';
import { TSelector, treeProcess } from 'jsroot/tree';
import { rntupleProcess } from 'jsroot/rntuple';

const ENTRIES = 100;
const TREES = ['TTree', 'TNtuple', 'TNtupleD'];
console.log = console.error = console.warn = () => {};

function plain(value) {
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  if (value === undefined || value === null) return null;
  if (ArrayBuffer.isView(value) || Array.isArray(value)) return Array.from(value, plain);
  if (value instanceof Map) return Array.from(value, ([key, one]) => [plain(key), plain(one)]);
  if (typeof value === 'object')
    return Object.fromEntries(Object.entries(value).filter(([, one]) => typeof one !== 'function').map(([name, one]) => [name, plain(one)]));
  return value;
}

async function column(table, isTree, branch, most) {
  const found = [];
  const selector = new TSelector();
  selector.addBranch(branch, 'value');
  selector.Process = function () { found.push(plain(this.tgtobj.value)); };
  let failed = null;
  selector.Terminate = (ok) => { if (ok === false) failed = new Error('not processed'); };
  await (isTree ? treeProcess : rntupleProcess)(table, selector, { numentries: most });
  if (failed) throw failed;
  return found;
}

function branches(of, found = []) {
  for (const branch of of.fBranches.arr) branch.fBranches?.arr?.length ? branches(branch, found) : found.push(branch);
  return found;
}

async function count(path) {
  const file = await openFile(path);
  const answer = { read: 0, failed: 0, reasons: {} };
  const attempt = async (name, read) => {
    try { await read(); answer.read++; } catch (error) { answer.failed++; answer.reasons[name] = String(error?.message ?? error).slice(0, 160); }
  };
  async function walk(directory, prefix) {
    for (const key of directory.fKeys) {
      const name = `${prefix}${key.fName};${key.fCycle}`;
      if (key.fClassName === 'TDirectory' || key.fClassName === 'TDirectoryFile') {
        if (prefix || key.fName !== 'StreamerInfo')
          await attempt(name, async () => walk(await file.readDirectory(name.replace(/;\d+$/, '')), `${prefix}${key.fName}/`));
        continue;
      }
      if (TREES.includes(key.fClassName)) {
        const tree = await file.readObject(name).catch(() => null);
        if (!tree) { answer.failed++; answer.reasons[name] = 'not read'; continue; }
        for (const branch of branches(tree))
          await attempt(`${name} ${branch.fName}`, () => column(tree, true, branch, Math.min(ENTRIES, tree.fEntries)));
      } else if (key.fClassName === 'ROOT::RNTuple') {
        const table = await file.readObject(name);
        const { readHeaderFooter } = await import('jsroot/rntuple');
        await readHeaderFooter(table);
        for (const field of table.builder.fieldDescriptors.filter((one, place) => one.parentFieldId === place))
          await attempt(`${name} ${field.fieldName}`, () => column(table, false, field.fieldName, ENTRIES));
      } else if (key.fName !== 'StreamerInfo' || prefix)
        await attempt(name, async () => { if (!(await file.readObject(name))) throw new Error('no object'); });
    }
  }
  await walk(file, '');
  return answer;
}

async function values(path) {
  const file = await openFile(path);
  const table = await file.readObject('t');
  return column(table, table._typename === 'TTree', 'value', 3);
}

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  let answer;
  try { answer = { answer: request.case !== undefined ? await values(request.path) : await count(request.path) }; }
  catch (error) { answer = { error: String(error?.message ?? error).slice(0, 160) }; }
  process.stdout.write(JSON.stringify(answer) + '\n');
}
