/**
 * Requests and their whole replies over connections to one address. An agent, or a server without TLS, gets
 * HTTP/1.1, one request a connection. A server over TLS gets HTTP/2 over one connection:
 * all waits of a proxy are on it, and a server that counts connections of an address counts one.
 *
 * @module
 */

import { type Address, type Clock, formatAddress } from "../../base/mod.ts";
import {
  ClientPool,
  type DialEngine,
  type DialFailure,
  dialServer,
  type ReachedServer,
  type ReachHandler,
  serverPoolOptions,
} from "../../http/mod.ts";
import type { Dial } from "../../net/mod.ts";
import {
  type AnsweringPeer,
  AskAgain,
  type Carrier,
  givenUp,
  type WireReply,
  type WireRequest,
  type WireTransport,
} from "./carrier.ts";
import { PendingRequest, Unsent } from "./pending_request.ts";
import { readTlsFiles, type TlsFiles } from "./files.ts";
import { agentCredentials, type ConsulTls, explainAlert } from "./tls_credentials.ts";
import { brokenWords, dialWords, portWanted } from "./unreachable.ts";

interface TransportOptions {
  readonly peer: AnsweringPeer;
  readonly address: Address;
  /** `null`: plain text. */
  readonly tls: ConsulTls | null;
  readonly engine: DialEngine;
  readonly clock: Clock;
  /** Bytes of all replies that have begun and are not complete; absent: 64 MiB. */
  readonly heldBytes?: number;
}

const CONNECT_MS = 10_000;
/** Counted from the last byte, so that a server that hangs is known within 24 s. */
const KEEP_ALIVE = { intervalMs: 9_000, timeoutMs: 6_000 };
const WAITING_LIMIT = 1_000;
const HELD_LIMIT_BYTES = 64 << 20;
/** A refused certificate is looked at again after this. */
const LOOK_AGAIN_MS = 10_000;
const LOOK_TIMEOUT_MS = 3_000;

export class Transport implements WireTransport {
  readonly where: string;
  readonly #options: TransportOptions;
  readonly #isHttp2: boolean;
  readonly #pool: ClientPool<ReachedServer, DialFailure>;
  readonly #running = new Set<PendingRequest>();
  #heldBytes = 0;
  #isClosed = false;
  /** The last look at a certificate that the TLS library refused. */
  #look: { readonly atMs: number; readonly reason: Promise<string | undefined> } | undefined;

  constructor(options: TransportOptions) {
    const { peer, address, tls, clock } = options;
    this.#options = options;
    this.#isHttp2 = peer === "server" && tls !== null;
    this.where = address.kind === "unix"
      ? formatAddress(address)
      : `${tls ? "https" : "http"}://${formatAddress(address)}`;
    this.#pool = new ClientPool({
      ...serverPoolOptions(clock),
      connectMs: CONNECT_MS,
      waitingLimit: WAITING_LIMIT,
      dial: (handler) => this.#dial(handler),
      // The budget bounds the connections of HTTP/1.1.
      ...(this.#isHttp2
        ? { version: "h2", awaitsSettings: true, keepAlive: KEEP_ALIVE, limit: 1 } as const
        : { version: "h1" } as const),
    });
  }

  async send(wire: WireRequest): Promise<WireReply> {
    try {
      return await this.#sendOnce(wire);
    } catch (error) {
      if (!(error instanceof Unsent)) throw error;
      // The watch knows where a wait goes on from.
      if (error.kind === "refused" && wire.waits) throw new AskAgain(error.message);
      if (error.kind === "stale" && !wire.repeatable) throw error;
      return await this.#sendOnce(wire);
    }
  }

  renew(): void {
    this.#pool.renew();
  }

  dropIdle(): void {
    this.#pool.closeIdle();
  }

  close(): void {
    this.#isClosed = true;
    for (const request of [...this.#running]) request.fail(givenUp());
    this.#pool.drain();
    this.#pool.reset("given up");
  }

  #sendOnce(wire: WireRequest): Promise<WireReply> {
    if (this.#isClosed || wire.signal?.aborted) return Promise.reject(givenUp());
    const { peer, clock, address, tls, heldBytes = HELD_LIMIT_BYTES } = this.#options;
    const request: PendingRequest = new PendingRequest(wire, {
      clock,
      where: `the Consul ${peer} at ${this.where}`,
      scheme: tls ? "https" : "http",
      authority: this.#isHttp2 && tls?.serverName || authorityOf(address, tls !== null),
      brokenWords: (reason, detail) => brokenWords(reason, detail, this.#options),
      mayBeStale: !this.#isHttp2,
      hold: (bytes) => (this.#heldBytes += bytes) <= heldBytes,
      onEnd: () => this.#running.delete(request),
    });
    this.#running.add(request);
    request.waitFor(this.#pool.reach({
      onDialled: (connection) => request.start(connection),
      onFailed: (failure) => request.cannotReach(dialWords(failure, this.#options)),
    }));
    return request.reply;
  }

  #dial(handler: ReachHandler<ReachedServer, DialFailure>): Dial {
    const { engine, address, tls, peer } = this.#options;
    const protocols = this.#isHttp2 ? ["h2"] : [];
    return dialServer({ engine, address, tls, protocols }, {
      onDialled: (reached) => {
        if (!this.#isHttp2 || reached.protocol === "h2") return handler.onDialled(reached);
        reached.stream.reset();
        const reason = `it does not speak HTTP/2; ${portWanted({ peer, tls })}`;
        handler.onFailed({ stage: "peer", reason });
      },
      onFailed: (failure) => {
        if (peer !== "agent" || failure.stage !== "handshake") return handler.onFailed(failure);
        void this.#lookAtCertificate().then((reason) =>
          handler.onFailed(reason === undefined ? failure : { stage: "peer", reason })
        );
      },
    });
  }

  /**
   * Why our own verdict refuses the agent's certificate. A TLS library that refuses it first does not
   * show it; a second connection, on which nothing is sent, does. One look serves all that fail at once.
   */
  #lookAtCertificate(): Promise<string | undefined> {
    const nowMs = this.#options.clock.monotonic();
    if (!this.#look || nowMs - this.#look.atMs >= LOOK_AGAIN_MS) {
      this.#look = { atMs: nowMs, reason: this.#refusalShown() };
    }
    return this.#look.reason;
  }

  #refusalShown(): Promise<string | undefined> {
    const { engine, address, tls, clock } = this.#options;
    return new Promise((resolve) => {
      if (!tls) return resolve(undefined);
      const done = (reason: string | undefined) => {
        timer.cancel();
        dial.cancel();
        resolve(reason);
      };
      const timer = clock.after(LOOK_TIMEOUT_MS, () => done(undefined));
      const shown: ConsulTls = {
        ...tls,
        material: async () => ({ ...await tls.material(), peerCheck: "shown" }),
      };
      const dial = dialServer({ engine, address, tls: shown, protocols: [] }, {
        onDialled: ({ stream }) => {
          stream.reset();
          done(undefined);
        },
        onFailed: ({ stage, reason }) => done(stage === "peer" ? reason : undefined),
      });
    });
  }
}

/** The `Host` of HTTP/1.1: without the default port of the scheme. */
function authorityOf(address: Address, isTls: boolean): string {
  if (address.kind === "unix") return "localhost";
  const { port } = address;
  const text = formatAddress(address);
  return port === (isTls ? 443 : 80) ? text.slice(0, -`:${port}`.length) : text;
}

/** Requests to an agent. Fails with `config_invalid` where files cannot be used. */
export function createAgentCarrier(
  { address, tls: files }: { readonly address: Address; readonly tls: TlsFiles | null },
  { engine, clock }: { readonly engine: DialEngine; readonly clock: Clock },
): Carrier {
  const tls = files && agentTls(files, { address, clock });
  const transport = new Transport({ peer: "agent", address, tls, engine, clock });
  return {
    peer: "agent",
    where: transport.where,
    send: (request) => transport.send(request),
    dropIdle: () => transport.dropIdle(),
    reloadFiles() {
      tls?.reload();
      transport.renew();
    },
    close: () => transport.close(),
  };
}

function agentTls(
  files: TlsFiles,
  { address, clock }: { readonly address: Address; readonly clock: Clock },
): ConsulTls & { reload(): void } {
  const host = address.kind === "tcp" ? address.host : "localhost";
  const read = () => {
    const texts = readTlsFiles(files);
    return { texts, credentials: agentCredentials(texts, { host, clock }) };
  };
  let current = read();
  return {
    serverName: files.serverName || host,
    material: () => current.credentials,
    explain: (reason) => explainAlert(reason, { peer: "agent", texts: current.texts }),
    reload: () => void (current = read()),
  };
}
