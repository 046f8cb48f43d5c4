/**
 * Servers that sign certificates and send roots, for tests of their clients: certificates can be made
 * wrong on purpose, and the test sets how the servers answer.
 *
 * @module
 */

import { ProxyError, silentLog, Stats } from "../../../src/base/mod.ts";
import type { CertificateOverrides } from "../certs/authority.ts";
import { readSigningRequest } from "../certs/signing_request.ts";
import { SIGN, WATCH_ROOTS } from "../../../src/consul/servers/methods.ts";
import { RootsFeed } from "../../../src/consul/servers/trust/server_roots.ts";
import { watchSignedLeaf } from "../../../src/consul/servers/trust/signed_leaf.ts";
import type { Method, StreamSink } from "../../../src/consul/servers/types.ts";
import type { Leaf } from "../../../src/consul/mod.ts";
import type { WatchHandle } from "../../../src/consul/model/consul.ts";
import { createAuthority } from "../certs/certificates.ts";
import { FakeClock } from "../clock/clock.ts";

export type Authority = ReturnType<typeof createAuthority>;

export class ScriptedSigner {
  readonly clock: FakeClock;
  /** Signs, and is the active root. */
  authority: Authority;
  /** Listed, in order; the active one among them. */
  listed: readonly Authority[];
  readonly asked: string[] = [];
  ttlMs = 72 * 3_600_000;
  /** How far {@link clock}, which is the proxy's, is ahead of the one that certificates are dated by. */
  aheadMs = 0;
  overrides: CertificateOverrides = {};
  /** Sent in place of a certificate. */
  reply: string | undefined;
  /** A call waits for this, or fails with its error. */
  before: () => Promise<void> = () => Promise.resolve();
  readonly #sinks = new Set<(message: unknown) => void>();
  #number = 0;

  constructor(clock: FakeClock = new FakeClock()) {
    this.clock = clock;
    this.authority = createAuthority({ nowMs: clock.now() - 60_000 });
    this.listed = [this.authority];
  }

  get streams(): number {
    return this.#sinks.size;
  }

  /** Another root signs from now on; `prune`: those before are not listed any more. */
  rotate(options: { readonly prune?: boolean } = {}): void {
    const next = createAuthority({ nowMs: this.clock.now() - 1_000 });
    this.authority = next;
    this.listed = options.prune ? [next] : [next, ...this.listed];
    this.#number++;
    this.tellRoots();
  }

  tellRoots(): void {
    for (const sink of this.#sinks) sink(this.#roots);
  }

  async call<Request, Response>(
    method: Method<Request, Response>,
    request: Request,
    options: { readonly signal?: AbortSignal },
  ): Promise<Response> {
    if (method.path !== SIGN.path) throw new Error(`no answer to ${method.path}`);
    this.asked.push(String(request));
    await this.before();
    if (options.signal?.aborted) throw new ProxyError("closed", "given up");
    return (this.reply ?? this.sign(String(request))) as Response;
  }

  follow<Request, Response>(
    method: Method<Request, Response>,
    _request: Request,
    sink: StreamSink<Response>,
  ): { stop(): void } {
    if (method.path !== WATCH_ROOTS.path) throw new Error(`no answer to ${method.path}`);
    const tell = (message: unknown) => sink.onMessage(message as Response);
    this.#sinks.add(tell);
    queueMicrotask(() => this.#sinks.has(tell) && tell(this.#roots));
    return { stop: () => void this.#sinks.delete(tell) };
  }

  /** The reply to a request, with its planned faults. */
  sign(csrPem: string): string {
    const request = readSigningRequest(csrPem);
    if (!request) throw new Error("no request");
    return this.authority.certify(request.publicKey, {
      nowMs: this.clock.now() - this.aheadMs,
      ttlMs: this.ttlMs,
      overrides: { uris: request.uris, ...this.overrides },
    }).certPem;
  }

  get #roots(): unknown {
    const number = this.#number;
    return {
      activeId: `root-${number}`,
      trustDomain: this.authority.trustDomain,
      roots: this.listed.map((authority, index) => ({
        id: `root-${number - index}`,
        name: "root",
        pem: authority.rootPem,
        active: index === 0,
        externalTrustDomain: "",
      })),
    };
  }
}

/** A leaf that is followed, and all that its watch delivered. */
export class FollowedLeaf {
  readonly leaves: Leaf[] = [];
  /** `code: text`. */
  readonly errors: string[] = [];
  readonly handle: WatchHandle;
  onDelivery: () => void = () => {};

  constructor(signer: ScriptedSigner, random: () => number = () => 0.5) {
    const { clock } = signer;
    const deps = { servers: signer, clock, log: silentLog, stats: new Stats() };
    this.handle = watchSignedLeaf({ service: "web", datacenter: "dc1" }, {
      sink: {
        onValue: (leaf) => {
          this.leaves.push(leaf);
          this.onDelivery();
        },
        onError: ({ code, message }) => {
          this.errors.push(`${code}: ${message}`);
          this.onDelivery();
        },
      },
      deps: { ...deps, random, roots: new RootsFeed(deps) },
    });
  }
}
