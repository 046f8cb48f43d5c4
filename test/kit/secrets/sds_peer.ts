/**
 * The reference SDS server as a peer of tests (`test/peers/sds_server`): serves the test's secrets,
 * reports its clients' requests, and misbehaves on demand.
 *
 * @example
 * await using sds = await startSdsPeer();
 * await sds.set({ web: certificateSecret(leaf), roots: validationSecret(ca.rootPem) });
 * // ... start a proxy that reads sds.address ...
 * await sds.acknowledged("web");
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { spawn } from "node:child_process";
import { createPrivateKey } from "node:crypto";
import { createInterface } from "node:readline";
import { ensureGoPeer, SDS_SERVER } from "../../../scripts/go_peer.ts";
import { loopbackHost } from "../process/ports.ts";
import { deadline, eventually } from "../process/process.ts";

/** Proto-JSON of Envoy's `Secret`. */
type SecretJson = Readonly<Record<string, unknown>>;

/** PEM text, chain and key of a leaf. */
export interface PemPair {
  readonly certPem: string;
  readonly keyPem: string;
}

interface SdsPeerOptions {
  /**
   * `127.0.0.1:0`, `unix:/path`; default: any free port of an address of its own, so that no other
   * program gets it while the server is stopped.
   */
  readonly listen?: string;
  readonly tls?: PemPair & {
    /** Set: clients must show a leaf of it. */ readonly clientCa?: string;
  };
  /** Behaves as a SPIRE agent: serves {@link SdsPeer.setWorkload}, by SDS and the Workload API. */
  readonly habits?: "spire";
  /** Answers a first request for names that do not exist at once, with no secrets. Default: is silent. */
  readonly answerUnknown?: boolean;
  /** Say false to start it later. */
  readonly started?: boolean;
}

/** The identities that a SPIRE agent may give to one workload. */
export interface WorkloadState {
  /** `spiffe://td`. */
  readonly trustDomain: string;
  readonly svids: readonly (PemPair & { readonly id: string; readonly hint?: string })[];
  /** PEM by `spiffe://td`, the own one among them. */
  readonly bundles: Readonly<Record<string, string>>;
}

/** The behaviour towards new connections: noise, not a byte, or a byte every 100 ms. */
type SdsFault = "garbage" | "silent" | "slow";

interface SdsEntry {
  /** Number of the stream since the server was started. */
  readonly stream: number;
  /** `StreamSecrets`, `DeltaSecrets`, `FetchX509SVID`, ... */
  readonly method: string;
  readonly event: "open" | "request" | "response" | "close";
  readonly atMs: number;
  readonly names?: readonly string[];
  /** Delta: unsubscribed from (request) or gone (response). */
  readonly removed?: readonly string[];
  readonly version?: string;
  /** Delta: `initial_resource_versions` (request), version of each secret (response). */
  readonly versions?: Readonly<Record<string, string>>;
  readonly nonce?: string;
  /** A request's: NACK. A close's: the status that the server ended it with. */
  readonly error?: { readonly code: number; readonly message?: string };
  readonly node?: Readonly<Record<string, unknown>>;
  /** Headers of the stream, at its opening. */
  readonly metadata?: Readonly<Record<string, readonly string[]>>;
}

interface SdsLog {
  readonly entries: readonly SdsEntry[];
  /** Open now. */
  readonly streams: number;
  readonly connections: number;
}

const ANSWER_TIMEOUT_MS = 60_000;

export class SdsPeer {
  readonly #child: ReturnType<typeof spawn>;
  readonly #answers: AsyncIterator<string>;
  readonly #exited: Promise<void>;
  #errors = "";
  #address = "";
  #turn: Promise<unknown> = Promise.resolve();
  /** The version of the server's cache at which each secret was last set. */
  readonly #versions = new Map<string, number>();
  /** Length of the log when the workload was last set. */
  #workloadAt: number | undefined;

  /** Ask {@link startSdsPeer}. */
  constructor(binary: string, args: readonly string[]) {
    const child = spawn(binary, [...args], { stdio: ["pipe", "pipe", "pipe"] });
    this.#child = child;
    this.#exited = new Promise((resolve) => {
      child.on("error", (error) => {
        this.#errors += error.message;
        resolve();
      });
      child.on("exit", () => resolve());
    });
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.#errors = (this.#errors + text).slice(-10_000);
    });
    // The missing answer reports a command that an ended server did not get.
    child.stdin?.on("error", () => {});
    if (!child.stdout) throw new Error("Cannot start sds_server: no stdout");
    this.#answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  }

  /** `127.1.2.3:40321` or `unix:/path`; stays the same when it is stopped and started again. */
  get address(): string {
    return this.#address;
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** Listens (again). `listen` and `tls` stay as they were where they are not given. */
  async start(options: Omit<SdsPeerOptions, "habits" | "started"> = {}): Promise<void> {
    const { tls, listen, answerUnknown } = options;
    const answer = await this.#ask("start", {
      ...(listen ? { listen } : {}),
      ...(tls ? { tls: { cert: tls.certPem, key: tls.keyPem, client_ca: tls.clientCa } } : {}),
      ...(answerUnknown ? { answerUnknown } : {}),
    });
    this.#address = String(answer.listening);
  }

  /** Closes the listener and every connection; its answers are kept. */
  async stop(): Promise<void> {
    await this.#ask("stop");
  }

  /** Changes these secrets in one step; `null` removes one. A secret may carry another name than its key. */
  async set(secrets: Readonly<Record<string, SecretJson | null>>): Promise<void> {
    const { version } = await this.#ask("set", { secrets });
    for (const name of Object.keys(secrets)) this.#versions.set(name, Number(version));
  }

  async remove(...names: readonly string[]): Promise<void> {
    await this.set(Object.fromEntries(names.map((name) => [name, null])));
  }

  async clear(): Promise<void> {
    await this.#ask("clear");
  }

  /** Replaces everything that a server with SPIRE's habits serves. */
  async setWorkload(state: WorkloadState): Promise<void> {
    const svids = state.svids.map(({ id, certPem, keyPem, hint = "" }) => {
      const key = createPrivateKey(keyPem).export({ type: "pkcs8", format: "pem" });
      return { id, chain: certPem, key, hint };
    });
    const { trustDomain: trust_domain, bundles } = state;
    const { at } = await this.#ask("workload", { workload: { trust_domain, svids, bundles } });
    this.#workloadAt = Number(at);
  }

  /** The events of its streams, from entry number `since` on. */
  async log(since = 0): Promise<SdsLog> {
    return await this.#ask("requests", { since }) as unknown as SdsLog;
  }

  /** Requests are still read and logged, but no answer is sent any more. */
  async stall(): Promise<void> {
    await this.#ask("stall");
  }

  /** Sends the bytes that were held back, and answers again. */
  async unstall(): Promise<void> {
    await this.#ask("unstall");
  }

  /** Ends every stream with Unavailable; connections stay. */
  async killStreams(): Promise<void> {
    await this.#ask("kill_streams");
  }

  /** Ends every connection; new ones meet `fault`, or are served again. */
  async setFault(fault: SdsFault | undefined): Promise<void> {
    await this.#ask("fault", { fault: fault ?? "" });
  }

  /**
   * Waits until a client answered to `name` as it was last set, and gives that ACK or NACK. A secret
   * that is set to the value that it had is not sent again over delta.
   */
  async answered(name: string, options: { readonly timeoutMs?: number } = {}): Promise<SdsEntry> {
    return await eventually(`${name} is answered`, async () => {
      const { entries } = await this.log();
      const version = this.#versions.get(name) ?? 0;
      // The agent's versions begin anew with each stream.
      const isNew = (entry: SdsEntry, index: number) =>
        this.#workloadAt === undefined
          ? Number(entry.version) >= version
          : index >= this.#workloadAt;
      const sent = entries.findLast((entry, index) =>
        entry.event === "response" && entry.names?.includes(name) && isNew(entry, index)
      );
      if (!sent) return undefined;
      return entries.find((entry) =>
        entry.event === "request" && entry.stream === sent.stream && entry.nonce === sent.nonce
      );
    }, options);
  }

  async acknowledged(
    name: string,
    options: { readonly timeoutMs?: number } = {},
  ): Promise<SdsEntry> {
    const entry = await this.answered(name, options);
    if (entry.error) throw new Error(`${name} was refused: ${entry.error.message}`);
    return entry;
  }

  /** Waits for the answer to `name` as it was last set; fails unless that is a NACK. */
  async refused(name: string, options: { readonly timeoutMs?: number } = {}): Promise<SdsEntry> {
    const entry = await this.answered(name, options);
    if (!entry.error) throw new Error(`${name} was taken`);
    return entry;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.stdin?.end();
    if (await deadline(this.#exited.then(() => true), 5_000)) return;
    this.#child.kill("SIGKILL");
    await this.#exited;
  }

  /** One line there, one line back; in the order of the calls. */
  async #ask(
    op: string,
    fields: Readonly<Record<string, unknown>> = {},
  ): Promise<Record<string, unknown>> {
    const turn = this.#turn.then(async () => {
      this.#child.stdin?.write(`${JSON.stringify({ op, ...fields })}\n`);
      const line = await deadline(this.#answers.next(), ANSWER_TIMEOUT_MS);
      if (!line || line.done) {
        throw new Error(`Cannot ${op}: sds_server gave no answer\n${this.#errors}`);
      }
      const answer: Record<string, unknown> = JSON.parse(line.value);
      if (answer.error) throw new Error(`Cannot ${op} at sds_server: ${answer.error}`);
      return answer;
    });
    this.#turn = turn.catch(() => {});
    return await turn;
  }
}

/** Starts the server; builds it where this machine does not have it yet. */
export async function startSdsPeer(options: SdsPeerOptions = {}): Promise<SdsPeer> {
  const { habits, started = true, listen = `${loopbackHost()}:0`, ...rest } = options;
  const peer = new SdsPeer(await ensureGoPeer(SDS_SERVER), habits ? ["-habits", habits] : []);
  try {
    if (started) await peer.start({ listen, ...rest });
    return peer;
  } catch (error) {
    await peer[Symbol.asyncDispose]();
    throw error;
  }
}

/** A secret with a leaf and its key. */
export function certificateSecret(pair: PemPair): SecretJson {
  return {
    tls_certificate: {
      certificate_chain: inlineBytes(pair.certPem),
      private_key: inlineBytes(pair.keyPem),
    },
  };
}

/** A secret with CA certificates and, in `rules`, other fields of `CertificateValidationContext`. */
export function validationSecret(
  caPem: string,
  rules: Readonly<Record<string, unknown>> = {},
): SecretJson {
  return { validation_context: { trusted_ca: inlineBytes(caPem), ...rules } };
}

/** A `DataSource`. */
export function inlineBytes(text: string): { readonly inline_bytes: string } {
  return { inline_bytes: Buffer.from(text).toString("base64") };
}
