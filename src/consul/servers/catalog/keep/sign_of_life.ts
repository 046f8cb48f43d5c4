/**
 * The session that lasts while this process renews it. Checks of type `session` are bound to it by name:
 * the servers turn them critical when it ends, 10 to 20 s after the last renewal, and as long again where
 * the leader changes meanwhile, because the new leader starts the TTL anew.
 *
 * @module
 */

import { type Clock, type Log, ProxyError } from "../../../../base/mod.ts";
import type { ConsulCall } from "../../../http/carrier.ts";
import type { ConsulReply } from "../../../http/client.ts";
import { object, readReply, someText } from "../../../replies/schema.ts";
import type { NodeCatalog } from "../node_catalog.ts";
import { WRITE_TIMEOUT_MS } from "./catalog_writes.ts";

/** The shortest that servers accept by default. */
const TTL = "10s";
/** Interval of renewals: four tries before the session may end. */
export const RENEW_MS = 4_000;

/** Sessions before the last few are long over. */
const NAMES_LIMIT = 8;
/** After a refusal; the right may be granted at any time. */
const REFUSED_MS = 60_000;

interface SignOfLifeOptions {
  readonly proxyId: string;
  readonly deps: { readonly clock: Clock; readonly log: Log };
}

const CreatedReply = object({ ID: someText });

export class SignOfLife {
  readonly #catalog: Pick<NodeCatalog, "client" | "node">;
  readonly #options: SignOfLifeOptions;
  #session: { readonly id: string; readonly name: string } | undefined;
  /** No session is created before. */
  #refusedUntilMs: number | undefined;
  /** Names of this session and earlier ones: an entry with one of them is ours. */
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
   * Renews the session, or creates one; the node must be there. Where the token may not create one that is
   * logged, and there is none: others then see this proxy as alive for ever.
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
        const text =
          "no sign of life: should this proxy die without a word, others keep calling it";
        log.error(text, { error: error.message });
      }
      this.#refusedUntilMs = clock.monotonic() + REFUSED_MS;
    }
  }

  async #create(signal: AbortSignal): Promise<void> {
    const { node } = this.#catalog;
    // Each session has its own name, so that a check does not fail when an earlier session ends.
    const name = `postern ${this.#options.proxyId} ${crypto.randomUUID()}`;
    const reply = await this.#put({
      what: `give a sign of life on node ${JSON.stringify(node)}`,
      needs: `session:write on ${JSON.stringify(node)}`,
      path: "/v1/session/create",
      // Without this the session is bound to serfHealth, which no virtual node has.
      body: { Name: name, Node: node, NodeChecks: [], TTL, LockDelay: "0s" },
      signal,
    });
    this.#session = { id: readReply(CreatedReply, reply.json, "the session").ID, name };
    this.names.add(name);
    const [oldest] = this.names;
    if (oldest !== undefined && this.names.size > NAMES_LIMIT) this.names.delete(oldest);
  }

  /** Ends the session and the checks bound to it. A failure does no harm: the session ends by itself. */
  async end(signal: AbortSignal): Promise<void> {
    const session = this.#session;
    this.#session = undefined;
    if (!session) return;
    try {
      const path = `/v1/session/destroy/${encodeURIComponent(session.id)}`;
      await this.#put({ what: "end the sign of life", path, signal });
    } catch (error) {
      if (!(error instanceof ProxyError)) throw error;
    }
  }

  /** False: the session has ended. */
  async #renew(id: string, signal: AbortSignal): Promise<boolean> {
    const reply = await this.#put({
      what: "renew the sign of life",
      path: `/v1/session/renew/${encodeURIComponent(id)}`,
      signal,
      absentIsAnswer: true,
    });
    return reply.status !== 404;
  }

  #put(call: Omit<ConsulCall, "resource" | "method" | "timeoutMs">): Promise<ConsulReply> {
    const timeoutMs = WRITE_TIMEOUT_MS;
    return this.#catalog.client.call({ ...call, resource: "session", method: "PUT", timeoutMs });
  }
}

/** The token lacks the right, or the servers require a longer TTL. */
function isRefusal({ code, message }: ProxyError): boolean {
  return code === "agent_forbidden" || /Invalid Session TTL/.test(message);
}
