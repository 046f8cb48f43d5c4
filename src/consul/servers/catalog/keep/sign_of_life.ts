/**
 * The session that lasts while this process renews it. Checks of type `session` are bound to it by name:
 * the servers turn them critical when it ends, 10 to 20 s after the last renewal, and as long again where
 * the leader changes meanwhile, because the new one counts anew.
 *
 * @module
 */

import { ProxyError } from "../../../../base/mod.ts";
import type { Client } from "../../../http/client.ts";
import { object, readReply, someText } from "../../../replies/schema.ts";

/** The least that servers take by default. */
const TTL = "10s";
/** How often a session has to be renewed: four tries before it may end. */
export const RENEW_MS = 4_000;
const TIMEOUT_MS = 4_000;

const CreatedReply = object({ ID: someText });

export class SignOfLife {
  readonly #client: Client;
  readonly #node: string;
  readonly #proxyId: string;
  #session: { readonly id: string; readonly name: string } | undefined;
  /** Names of all that there were: what bears one is ours. */
  readonly names: Set<string> = new Set();

  constructor(client: Client, options: { readonly node: string; readonly proxyId: string }) {
    this.#client = client;
    this.#node = options.node;
    this.#proxyId = options.proxyId;
  }

  /** `""`: there is none. */
  get name(): string {
    return this.#session?.name ?? "";
  }

  /**
   * Renews the session, or makes one where there is none (any more); the node must be there. Fails with
   * `agent_forbidden` where the token may not: no checks may be bound then.
   */
  async beat(signal: AbortSignal): Promise<void> {
    if (this.#session && await this.#renew(this.#session.id, signal)) return;
    this.#session = undefined;
    // A name of its own for each: a check must not fall with an earlier session that ends later.
    const name = `postern ${this.#proxyId} ${crypto.randomUUID()}`;
    const reply = await this.#client.call({
      resource: "session",
      what: `give a sign of life on node ${JSON.stringify(this.#node)}`,
      needs: `session:write on ${JSON.stringify(this.#node)}`,
      method: "PUT",
      path: "/v1/session/create",
      // Without this it would be bound to serfHealth, which no virtual node has.
      body: { Name: name, Node: this.#node, NodeChecks: [], TTL, LockDelay: "0s" },
      timeoutMs: TIMEOUT_MS,
      signal,
    });
    this.#session = { id: readReply(CreatedReply, reply.json, "the session").ID, name };
    this.names.add(name);
  }

  /** Ends it, and with it what is bound to it. Failing is no harm: it ends by itself. */
  async end(): Promise<void> {
    const session = this.#session;
    this.#session = undefined;
    if (!session) return;
    try {
      await this.#client.call({
        resource: "session",
        what: "end the sign of life",
        method: "PUT",
        path: `/v1/session/destroy/${encodeURIComponent(session.id)}`,
        timeoutMs: TIMEOUT_MS,
      });
    } catch (error) {
      if (!(error instanceof ProxyError)) throw error;
    }
  }

  /** False: the servers do not know it any more. */
  async #renew(id: string, signal: AbortSignal): Promise<boolean> {
    const reply = await this.#client.call({
      resource: "session",
      what: "renew the sign of life",
      method: "PUT",
      path: `/v1/session/renew/${encodeURIComponent(id)}`,
      timeoutMs: TIMEOUT_MS,
      signal,
      absentIsAnswer: true,
    });
    return reply.status !== 404;
  }
}
