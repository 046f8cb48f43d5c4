/** A data path in this process on the runtime's own engine, and apps to put around it. @module */

import { connect, type Socket } from "node:net";
import { type Log, silentLog, systemClock, systemRandom } from "../../../src/base/mod.ts";
import { ColumnTable } from "../../../src/app/workers/column_table.ts";
import { runtimeEngine } from "../../../src/net/mod.ts";
import { DataPath, type DataPathOptions, SharedCounts } from "../../../src/proxy/mod.ts";
import { diffSnapshots, type Snapshot } from "../../../src/snapshot/mod.ts";

export interface TestPath extends AsyncDisposable {
  readonly path: DataPath;
  /** Applies a whole new snapshot. */
  set(snapshot: Snapshot): Promise<void>;
  /** Port of the public listener, or of the upstream of that name. */
  port(name?: string): number;
}

export async function startDataPath(
  snapshot: Snapshot,
  options: Partial<DataPathOptions> & { readonly log?: Log } = {},
): Promise<TestPath> {
  const counts = options.counts ?? SharedCounts.create(1);
  const path = new DataPath({
    engine: runtimeEngine(),
    clock: systemClock,
    random: systemRandom,
    log: silentLog,
    worker: 0,
    workers: 1,
    counts,
    maxConnections: 10_000,
    remoteAuthorize: () => Promise.resolve({ allowed: true, reason: "" }),
    fetchCertificate: () => Promise.resolve(false),
    idleTimeoutMs: 0,
    lifetimeMs: 0,
    ...options,
  });
  let current: Snapshot | undefined;
  const columns = new ColumnTable(counts);
  const set = async (next: Snapshot) => {
    const update = diffSnapshots(current, next);
    current = next;
    await path.prepare(update);
    await path.publish(columns.for(next));
    columns.settled(next);
  };
  await set(snapshot);
  return {
    path,
    set,
    port(name) {
      const wanted = name ? `service:default/default/${name}` : "inbound";
      const listener = path.listeners().find((candidate) => candidate.name === wanted);
      return Number(listener?.address.split(":").at(-1));
    },
    [Symbol.asyncDispose]() {
      path.close();
      return Promise.resolve();
    },
  };
}

export interface TestClient extends AsyncDisposable {
  readonly socket: Socket;
  /** Everything received up to and with `length` bytes. */
  read(length: number): Promise<Buffer>;
  /** Everything received until the peer ended; rejects when it broke the connection. */
  readAll(): Promise<Buffer>;
  send(data: string | Uint8Array): void;
  /** Resolves when the connection is gone: `end` in order, `reset` broken. */
  readonly gone: Promise<"end" | "reset">;
}

/** Rejects where nothing listens; one that is accepted and broken at once is `gone`. */
export async function openClient(port: number, host = "127.0.0.1"): Promise<TestClient> {
  const socket = connect({ port, host, allowHalfOpen: true });
  const client = clientOf(socket);
  await new Promise<void>((resolve, reject) => {
    socket.once("connect", resolve);
    socket.once("error", (error: Error & { code?: string }) => {
      if (error.code === "ECONNRESET") resolve();
      else reject(error);
    });
  });
  return client;
}

/** The same for a socket that is connected already, e.g. a TLS one. */
export function clientOf(socket: Socket): TestClient {
  /** Joined only when read: joining at each chunk would copy everything again and again. */
  let chunks: Buffer[] = [];
  let size = 0;
  const take = (length: number) => {
    const all = Buffer.concat(chunks);
    size = all.length - length;
    chunks = [all.subarray(length)];
    return all.subarray(0, length);
  };
  let state: "open" | "end" | "reset" = "open";
  let wake = () => {};
  const woken = () => wake();
  socket.on("data", (chunk: Buffer) => {
    chunks.push(chunk);
    size += chunk.length;
    woken();
  });
  const gone = new Promise<"end" | "reset">((resolve) => {
    socket.on("end", () => {
      if (state === "open") state = "end";
      resolve("end");
      woken();
    });
    socket.on("error", () => {
      state = "reset";
      resolve("reset");
      woken();
    });
    socket.on("close", () => {
      if (state === "open") state = "reset";
      resolve(state === "end" ? "end" : "reset");
      woken();
    });
  });
  const until = async (done: () => boolean) => {
    while (!done()) await new Promise<void>((resolve) => wake = resolve);
  };
  return {
    socket,
    gone,
    async read(length) {
      await until(() => size >= length || state !== "open");
      if (size < length) {
        throw new Error(`connection was ${state} after ${size} of ${length} bytes`);
      }
      return take(length);
    },
    async readAll() {
      await until(() => state !== "open");
      if (state === "reset") throw new Error(`connection was reset after ${size} bytes`);
      return take(size);
    },
    send: (data) => void socket.write(data),
    [Symbol.asyncDispose]() {
      socket.destroy();
      return Promise.resolve();
    },
  };
}
