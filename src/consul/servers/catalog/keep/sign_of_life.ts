/**
 * The session that lasts while this process renews it. Checks of type `session` are bound to it by name:
 * the servers turn them critical when it ends, 10 to 20 s after the last renewal, and as long again where
 * the leader changes meanwhile, because the new one counts anew.
 *
 * @module
 */

import { type Clock, type Log, ProxyError } from "../../../../base/mod.ts";
import { object, readReply, someText } from "../../../replies/schema.ts";
import type { NodeCatalog } from "../node_catalog.ts";
import { WRITE_TIMEOUT_MS } from "./catalog_writes.ts";

/** The least that servers take by default. */
const TTL = "10s";
/** How often a session has to be renewed: four tries before it may end. */
export const RENEW_MS = 4_000;

/** Sessions before the last few are long over. */
const NAMES_LIMIT = 8;
/** The right to it may be granted any time. */
const REFUSED_MS = 60_000;

export interface SignOfLifeOptions {
  readonly proxyId: string;
  readonly deps: { readonly clock: Clock; readonly log: Log };
}

const CreatedReply = object({ ID: someText });

export class SignOfLife {
  readonly #catalog: Pick<NodeCatalog, "client" | "node">;
  readonly #options: SignOfLifeOptions;
  #session: { readonly id: string; readonly name: string } | undefined;
  /** None may be made before. */
  #refusedUntilMs: number | undefined;
  /** Of it and those before: what bears one is ours. */
  readonly names: Set<string> = new Set();

  constructor(catalog: Pick<NodeCatalog, "client" | "node">, options: SignOfLifeOptions) {
    this.#catalog = catalog;
    this.#options = options;
  }

  /** `""`: there is none. */
  get name(): string {
    return this.#session?.name ?? "";
  }

  /**
   * Renews the session, or makes one where there is none (any more); the node must be there. Where none
   * may be made that is said, and there is none: others see us as alive for ever.
   */
  async beat(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#options.deps;
    if (this.#session && await this.#renew(this.#session.id, signal)) return;
    this.#session = undefined;
    if (clock.monotonic() < (this.#refusedUntilMs ?? 0)) return;
    try {
      await this.#create(signal);
      this.#refusedUntilMs = undefined;
    } catch (error) {
      if (!(error instanceof ProxyError) || !isRefusal(error)) throw error;
      if (this.#refusedUntilMs === undefined) {
        log.error("no sign of life: should this proxy die without a word, others keep calling it", {
          error: error.message,
        });
      }
      this.#refusedUntilMs = clock.monotonic() + REFUSED_MS;
    }
  }

  async #create(signal: AbortSignal): Promise<void> {
    const { client, node } = this.#catalog;
    // A name of its own for each: a check must not fall with an earlier session that ends later.
    const name = `postern ${this.#options.proxyId} ${crypto.randomUUID()}`;
    const reply = await client.call({
      resource: "session",
      what: `give a sign of life on node ${JSON.stringify(node)}`,
      needs: `session:write on ${JSON.stringify(node)}`,
      method: "PUT",
      path: "/v1/session/create",
      // Without this it would be bound to serfHealth, which no virtual node has.
      body: { Name: name, Node: node, NodeChecks: [], TTL, LockDelay: "0s" },
      timeoutMs: WRITE_TIMEOUT_MS,
      signal,
    });
    this.#session = { id: readReply(CreatedReply, reply.json, "the session").ID, name };
    this.names.add(name);
    const [oldest] = this.names;
    if (oldest !== undefined && this.names.size > NAMES_LIMIT) this.names.delete(oldest);
  }

  /** Ends it, and with it what is bound to it. Failing is no harm: it ends by itself. */
  async end(signal: AbortSignal): Promise<void> {
    const session = this.#session;
    this.#session = undefined;
    if (!session) return;
    try {
      await this.#catalog.client.call({
        resource: "session",
        what: "end the sign of life",
        method: "PUT",
        path: `/v1/session/destroy/${encodeURIComponent(session.id)}`,
        timeoutMs: WRITE_TIMEOUT_MS,
        signal,
      });
    } catch (error) {
      if (!(error instanceof ProxyError)) throw error;
    }
  }

  /** False: the servers do not know it any more. */
  async #renew(id: string, signal: AbortSignal): Promise<boolean> {
    const reply = await this.#catalog.client.call({
      resource: "session",
      what: "renew the sign of life",
      method: "PUT",
      path: `/v1/session/renew/${encodeURIComponent(id)}`,
      timeoutMs: WRITE_TIMEOUT_MS,
      signal,
      absentIsAnswer: true,
    });
    return reply.status !== 404;
  }
}

/** The token may not, or the operator wants sessions that last longer. */
function isRefusal({ code, message }: ProxyError): boolean {
  return code === "agent_forbidden" || /Invalid Session TTL/.test(message);
}
