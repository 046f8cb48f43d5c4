import assert from "node:assert/strict";
import {
  chmod,
  mkdir,
  mkdtemp,
  open,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import * as facts from "../../../test/kit/consul/snapshot_facts.ts";
import { answeringAgent, SourceRig } from "../../../test/kit/consul/snapshot_source.ts";
import { createLog, type LogRecord, Stats } from "../../base/mod.ts";
import { createStateFiles, FileStore, type StateFileSystem, type StoredState } from "../mod.ts";
import type { Snapshot } from "../../snapshot/mod.ts";
import { formatStored, parseStored } from "./store.ts";

const PROXY_ID = "web-1-sidecar-proxy";

class Rig {
  readonly clock = new FakeClock({ startMs: facts.NOW_MS });
  readonly stats = new Stats();
  readonly lines: LogRecord[] = [];
  readonly parent: string;
  readonly directory: string;

  constructor(parent: string) {
    this.parent = parent;
    this.directory = join(parent, "state");
  }

  static async create(): Promise<Rig> {
    return new Rig(await mkdtemp(join(tmpdir(), "postern-store-")));
  }

  store(system: Partial<StateFileSystem> = {}): FileStore {
    const { clock, stats, directory } = this;
    const write = (line: LogRecord) => void this.lines.push(line);
    const log = createLog({ clock, write, holder: { level: "info" } });
    return new FileStore({ directory, clock, log, stats, files: createStateFiles(system) });
  }

  /** Stores `snapshot` and gives the file's path. */
  async stored(snapshot: Snapshot): Promise<string> {
    const store = this.store();
    store.save({ snapshot });
    await store.close();
    return await this.file();
  }

  async file(): Promise<string> {
    const [name, ...more] = await readdir(this.directory);
    assert.deepEqual(more, [], "more than one file");
    return join(this.directory, name ?? "");
  }

  messages(): readonly string[] {
    return this.lines.map(({ message, fields }) => `${message}: ${fields["error"] ?? ""}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.parent, { recursive: true, force: true });
  }
}

async function aSnapshot(): Promise<Snapshot> {
  await using rig = await new SourceRig(answeringAgent()).start();
  return rig.last;
}

/** Lets the file system do what a store asked of it, for as long as it really takes. */
async function until(
  done: () => boolean,
  each: () => Promise<void> = () => Promise.resolve(),
): Promise<void> {
  const deadline = performance.now() + 30_000;
  while (!done()) {
    assert.ok(performance.now() < deadline, "it did not happen");
    await each();
    await new Promise((resolve) => setImmediate(resolve));
  }
}

test("FileStore returns the state to the same proxy only", async () => {
  await using rig = await Rig.create();
  const snapshot = await aSnapshot();
  const file = await rig.stored(snapshot);
  assert.deepEqual(await rig.store().load(PROXY_ID), { snapshot });
  assert.equal((await stat(file)).mode & 0o777, 0o600);
  assert.equal((await stat(rig.directory)).mode & 0o777, 0o700);
  assert.equal(await rig.store().load("other-sidecar-proxy"), undefined);
  assert.deepEqual(rig.messages(), []);
});

test("FileStore has nothing where nothing was stored", async () => {
  await using rig = await Rig.create();
  assert.equal(await rig.store().load(PROXY_ID), undefined);
  assert.deepEqual(rig.messages(), []);
});

for (
  const [name, harm, want] of [
    ["others may read", (file) => chmod(file, 0o640), /mode 0640.*must be 0600/],
    ["is a link", async (file, rig) => {
      const elsewhere = join(rig.parent, "elsewhere");
      await writeFile(elsewhere, await readFile(file), { mode: 0o600 });
      await rm(file);
      await symlink(elsewhere, file);
    }, /ELOOP|symbolic/],
    [
      "is in a directory that others may write",
      (_file, rig) => chmod(rig.directory, 0o777),
      /0700/,
    ],
    ["is cut short", async (file) => {
      const text = await readFile(file, "utf8");
      await writeFile(file, text.slice(0, text.length / 2));
    }, /its digest is wrong: it is cut short or was changed/],
    ["is empty", (file) => writeFile(file, ""), /its format is unknown/],
    [
      "is of another format",
      async (file) => {
        const text = await readFile(file, "utf8");
        await writeFile(file, text.replace(/"schema":\d+/, '"schema":1'));
      },
      /another version wrote it: its format is 1,/,
    ],
    [
      "was edited by hand",
      async (file) => {
        const text = await readFile(file, "utf8");
        await writeFile(file, text.replace('"defaultAction":"deny"', '"defaultAction":"allow"'));
      },
      /its digest is wrong/,
    ],
    [
      "is another proxy's",
      (file) => edit(file, ({ snapshot }) => ({ snapshot: { ...snapshot, proxyId: "x" } })),
      /of proxy "x", not/,
    ],
    [
      "has another key",
      (file) =>
        edit(file, ({ snapshot }) => {
          assert.ok(snapshot.credentials);
          const { keyPem } = facts.leafOf(facts.authority());
          return { snapshot: { ...snapshot, credentials: { ...snapshot.credentials, keyPem } } };
        }),
      /key does not belong/,
    ],
    [
      "has no credentials of the mesh",
      (file) => edit(file, ({ snapshot }) => ({ snapshot: { ...snapshot, credentials: null } })),
      /no credentials of the mesh/,
    ],
    ["has expired", (_file, rig) => rig.clock.advance(80 * 3_600_000), /expired/],
  ] as const satisfies readonly (readonly [
    string,
    (file: string, rig: Rig) => Promise<void>,
    RegExp,
  ])[]
) {
  test(`FileStore does not load a file that ${name}`, async () => {
    await using rig = await Rig.create();
    const file = await rig.stored(await aSnapshot());
    await harm(file, rig);
    assert.equal(await rig.store().load(PROXY_ID), undefined);
    assert.match(rig.messages().join("\n"), want);
    assert.doesNotMatch(rig.messages().join("\n"), /BEGIN|[A-Za-z0-9+/]{60}/);
  });
}

/** Writes it with a right digest. */
async function edit(file: string, change: (state: StoredState) => StoredState): Promise<void> {
  const parsed = parseStored(await readFile(file, "utf8"));
  assert.ok(parsed.kind === "valid");
  await writeFile(file, formatStored(change(parsed.state)));
}

test("FileStore does not write into a directory that others may write", async () => {
  await using rig = await Rig.create();
  await rig.stored(await aSnapshot());
  await rm(await rig.file());
  await chmod(rig.directory, 0o777);
  const store = rig.store();
  store.save({ snapshot: await aSnapshot() });
  await store.close();
  assert.deepEqual(await readdir(rig.directory), []);
  assert.match(rig.messages()[0] ?? "", /^snapshot not stored: .*can be written by others/);
});

for (
  const [name, code, at] of [
    ["the disk is full", "ENOSPC", "writeFile"],
    ["the disk is full when it syncs", "ENOSPC", "sync"],
    ["the file cannot be made", "EACCES", "open"],
    ["the file cannot be renamed", "EROFS", "rename"],
  ] as const
) {
  test(`FileStore keeps the old file, and goes on, when ${name}`, async () => {
    await using rig = await Rig.create();
    const snapshot = await aSnapshot();
    const file = await rig.stored(snapshot);
    const before = await readFile(file, "utf8");
    let failing = true;
    const store = rig.store(failingAt(at, code, () => failing));
    store.save({ snapshot: { ...snapshot, version: 2 } });
    await rig.clock.advance(0);
    await until(() => rig.lines.length > 0);
    assert.match(rig.messages()[0] ?? "", new RegExp(`^snapshot not stored: .*${code}`));
    assert.equal(await readFile(file, "utf8"), before);
    assert.deepEqual((await readdir(rig.directory)).length, 1, "a temporary file was left");
    const failures = rig.stats.samples().find(({ name }) =>
      name === "snapshot_store_failures_total"
    );
    assert.equal(failures?.value, 1);

    failing = false;
    // The failure is told before the next try is set, so time passes until it was made.
    await until(() => rig.lines.length > 1, () => rig.clock.advance(1_000));
    assert.equal(rig.lines[1]?.message, "snapshot stored again");
    assert.equal((await rig.store().load(PROXY_ID))?.snapshot.version, 2);
    await store.close();
  });
}

function failingAt(
  at: "open" | "writeFile" | "sync" | "rename",
  code: string,
  isFailing: () => boolean,
): Partial<StateFileSystem> {
  const fail = () => Promise.reject(Object.assign(new Error(`${code}: ${at}`), { code }));
  if (at === "rename") {
    return {
      rename: async (from, to) => isFailing() ? await fail() : await rename(from, to),
    };
  }
  return {
    open: async (path, flags, mode) => {
      const writes = flags === "wx" && isFailing();
      if (writes && at === "open") return await fail();
      const handle = await open(path, flags, mode);
      if (writes) Object.defineProperty(handle, at, { value: fail });
      return handle;
    },
  };
}

test("FileStore replaces what a killed process left behind", async () => {
  await using rig = await Rig.create();
  const snapshot = await aSnapshot();
  const file = await rig.stored(snapshot);
  await writeFile(`${file}.tmp`, "half");
  const store = rig.store();
  store.save({ snapshot: { ...snapshot, version: 2 } });
  await store.close();
  assert.equal(await rig.file(), file);
  assert.equal((await rig.store().load(PROXY_ID))?.snapshot.version, 2);
});

test("FileStore writes at most once per second, and the newest last", async () => {
  await using rig = await Rig.create();
  const snapshot = await aSnapshot();
  const startedMs: number[] = [];
  let finished = 0;
  const store = rig.store({
    // The first call of a write; the later ones take real time, in which the fake clock runs on.
    mkdir: ((path: string, options: { recursive: true }) => {
      startedMs.push(rig.clock.monotonic());
      return mkdir(path, options);
    }) as StateFileSystem["mkdir"],
    rename: async (from, to) => {
      await rename(from, to);
      finished++;
    },
  });
  for (let version = 2; version < 20; version++) {
    store.save({ snapshot: { ...snapshot, version } });
    await rig.clock.advance(50);
  }
  // Bounded by real time, since the disk takes as long as it takes.
  const until = performance.now() + 30_000;
  while (finished < 2 && performance.now() < until) await rig.clock.advance(1);
  assert.equal((await rig.store().load(PROXY_ID))?.snapshot.version, 19);
  await rig.clock.advance(10_000);
  await store.close();
  assert.equal(finished, 2);
  const [first = 0, second = 0] = startedMs;
  assert.ok(second - first >= 1_000, `${second - first} ms between two writes`);
});

test("FileStore writes what waits when it is closed, and nothing after", async () => {
  await using rig = await Rig.create();
  const snapshot = await aSnapshot();
  const store = rig.store();
  store.save({ snapshot });
  store.save({ snapshot: { ...snapshot, version: 5 } });
  await store.close();
  store.save({ snapshot: { ...snapshot, version: 6 } });
  await rig.clock.advance(5_000);
  assert.equal((await rig.store().load(PROXY_ID))?.snapshot.version, 5);
});
