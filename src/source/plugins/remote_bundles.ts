/**
 * Bundles of plugins that are on no disk of this host: a key of Consul's key/value store, or a server's
 * file by HTTPS. Each is pinned by its digest, so its content never changes: it is fetched once, and
 * the right to write the key, or to answer as the server, does not decide what runs.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { messageOf } from "../../base/mod.ts";
import { sha256 } from "./bundle.ts";
import type { JoinedModules } from "./module_join.ts";
import { readBundle } from "./plugin_bundle.ts";

const KEY = "consul-kv:";
const HTTPS = "https://";
const LIMIT_BYTES = 4 * 1024 * 1024;
const FETCH_TIMEOUT_MS = 20_000;

type RemoteBundle = JoinedModules & Pick<ReturnType<typeof readBundle>, "libraries">;

/** Reads a key of Consul's key/value store. */
export type ReadKey = (key: string) => Promise<Uint8Array>;

export function isRemote(use: string): boolean {
  return use.startsWith(KEY) || use.startsWith(HTTPS);
}

export class RemoteBundles {
  readonly #readKey: ReadKey;
  /** By digest. */
  readonly #fetched = new Map<string, RemoteBundle>();

  constructor(readKey: ReadKey) {
    this.#readKey = readKey;
  }

  /** Rejects with the reason in words that follow the name of the plugin. */
  async get(use: string, pin: string): Promise<RemoteBundle> {
    const before = this.#fetched.get(pin);
    if (before) return before;
    let bytes: Uint8Array;
    try {
      bytes = await (use.startsWith(KEY) ? this.#readKey(use.slice(KEY.length)) : fetchFile(use));
    } catch (error) {
      throw new Error(`Cannot fetch ${use}: ${messageOf(error)}`, { cause: error });
    }
    const digest = sha256(bytes);
    if (digest !== pin) {
      throw new Error(
        `The content of ${use} has the digest ${digest}, which is not the pinned one`,
      );
    }
    const bundle = readBundle(new TextDecoder().decode(bytes), use);
    this.#fetched.set(pin, bundle);
    return bundle;
  }

  /** Forgets the others. */
  keep(pins: ReadonlySet<string>): void {
    for (const pin of this.#fetched.keys()) if (!pins.has(pin)) this.#fetched.delete(pin);
  }
}

async function fetchFile(url: string): Promise<Uint8Array> {
  const signal = AbortSignal.timeout(FETCH_TIMEOUT_MS);
  const reply = await fetch(url, { redirect: "error", signal });
  if (reply.status !== 200 || !reply.body) {
    await reply.body?.cancel();
    throw new Error(`the server answers ${reply.status}`);
  }
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of reply.body) {
    length += chunk.length;
    if (length > LIMIT_BYTES) throw new Error(`it is longer than ${LIMIT_BYTES} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
