/**
 * Keys that an issuer publishes: fetched before they expire, kept while the issuer is unreachable, and fetched
 * again when a token names an unknown key. A reload of plugins keeps them.
 *
 * @module
 */

import type { Host } from "../../src/plugin/api.ts";
import type { Remote } from "./config.ts";
import { KeySet } from "./key_set.ts";

/** Keys are used for so long after they expired; then their tokens are refused. */
const STALE_LIMIT_MS = 3_600_000;
/** Minimum interval between fetches that unknown key names cause. */
const UNKNOWN_PAUSE_MS = 10_000;
const LIMIT_BYTES = 262_144;

/** Resolves to the text of a key set; throws the reason if there is none. */
export type LoadKeys = (signal: AbortSignal) => Promise<string>;

interface Store {
  keys: KeySet | undefined;
  fetchedAt: number;
  triedAt: number;
  fetching: Promise<boolean> | undefined;
}

export class RemoteKeys {
  readonly #host: Host;
  readonly #remote: Remote;
  readonly #load: LoadKeys;
  readonly #store: Store;
  readonly #fetches;

  constructor(host: Host, remote: Remote, load: LoadKeys = (signal) => loadFrom(remote, signal)) {
    this.#host = host;
    this.#remote = remote;
    this.#load = load;
    this.#store = host.shared<Store>(`keys ${remote.uri}`, () => ({
      keys: undefined,
      fetchedAt: -Infinity,
      triedAt: -Infinity,
      fetching: undefined,
    }));
    this.#fetches = host.stats.counter("key_fetches", {
      help: "Requests to issuers for their key sets, by result",
      labels: { result: ["done", "failed"] },
    });
  }

  /** `undefined`: there are no keys that may still be trusted. */
  get current(): KeySet | undefined {
    const { keys, fetchedAt } = this.#store;
    const age = this.#host.clock.now() - fetchedAt;
    return age < this.#remote.cacheDuration + STALE_LIMIT_MS ? keys : undefined;
  }

  /** Keys newer than `known`, which lacks the key of a token; `undefined`: there are none now. */
  async newerThan(known: KeySet | undefined): Promise<KeySet | undefined> {
    const { triedAt, fetching } = this.#store;
    const mayAsk = this.#host.clock.now() - triedAt >= UNKNOWN_PAUSE_MS;
    if (fetching || mayAsk) await this.fetch();
    const { current } = this;
    return current === known ? undefined : current;
  }

  /** Fetches the keys; concurrent calls share one fetch. False: it failed. */
  fetch(): Promise<boolean> {
    const store = this.#store;
    return store.fetching ??= this.#fetch().finally(() => store.fetching = undefined);
  }

  async #fetch(): Promise<boolean> {
    const { clock, log, signal } = this.#host;
    const store = this.#store;
    const over = new AbortController();
    store.triedAt = clock.now();
    try {
      const text = await this.#within(this.#remote.requestTimeoutMs, over);
      store.keys = KeySet.read(text);
      store.fetchedAt = clock.now();
      this.#fetches.add(1, { result: "done" });
      return true;
    } catch (error) {
      if (signal.aborted) return false;
      this.#fetches.add(1, { result: "failed" });
      const reason = error instanceof Error ? error.message : String(error);
      log.warn("keys could not be fetched", { uri: this.#remote.uri, reason });
      return false;
    } finally {
      over.abort();
    }
  }

  #within(limitMs: number, over: AbortController): Promise<string> {
    const { clock, signal } = this.#host;
    const late = clock.sleep(limitMs, over.signal).then(() => {
      if (!over.signal.aborted) over.abort(new Error(`no answer after ${limitMs} ms`));
      throw over.signal.reason;
    });
    return Promise.race([this.#load(AbortSignal.any([signal, over.signal])), late]);
  }

  /** Fetches keys before they expire, with growing pauses after failures, until the generation ends. */
  async follow(signal: AbortSignal): Promise<void> {
    const { clock } = this.#host;
    let failed = 0;
    while (!signal.aborted) {
      // A random part of the lifetime, so that the proxies of a mesh do not fetch at the same time.
      const due = this.#remote.cacheDuration * (0.8 + 0.1 * this.#host.random());
      const rest = this.#store.fetchedAt + due - clock.now();
      if (rest > 0) await clock.sleep(rest, signal);
      else if (await this.fetch()) failed = 0;
      else await clock.sleep(this.#pauseAfter(failed++), signal);
    }
  }

  #pauseAfter(failed: number): number {
    const { numRetries, retryPolicyBackOff: { baseInterval, maxInterval } } =
      this.#remote.retryPolicy;
    if (failed >= numRetries) return maxInterval;
    const most = Math.min(maxInterval, baseInterval * 2 ** Math.min(failed, 30));
    return most * (0.5 + 0.5 * this.#host.random());
  }
}

async function loadFrom({ uri }: Remote, signal: AbortSignal): Promise<string> {
  // Redirects are refused: only the configured server provides trusted keys.
  const response = await fetch(uri, { signal, redirect: "error" });
  if (response.status !== 200) {
    await response.body?.cancel();
    throw new Error(`it answered with status ${response.status}`);
  }
  const decoder = new TextDecoder();
  let text = "";
  let length = 0;
  for await (const chunk of response.body ?? []) {
    length += chunk.length;
    if (length > LIMIT_BYTES) throw new RangeError(`it is longer than ${LIMIT_BYTES} bytes`);
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}
