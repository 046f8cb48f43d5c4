/**
 * The service's certificate for a key that never was anybody else's: asked for when the roots are known,
 * again between 50 and 65 % of its life (sooner than Consul's agents do, since nobody else
 * would), and soon after another root has become the active one. Each time with a new key, so that
 * what one key could have been used for ends with its certificate. Until the next one is good, the last
 * one stays.
 *
 * @module
 */

import {
  type Clock,
  type Log,
  ProxyError,
  type Random,
  type Stats,
  type Timer,
} from "../../../base/mod.ts";
import { formatServiceId } from "../../../identity/mod.ts";
import type { WatchHandle, WatchSink, WatchState } from "../../agent.ts";
import type { Leaf, Roots } from "../../types.ts";
import { Delivery, toProxyError } from "../../watch/delivery.ts";
import { SIGN } from "../methods.ts";
import type { ConsulServers } from "../types.ts";
import { judgeSigned } from "./judge_signed.ts";
import type { RootsFeed } from "./server_roots.ts";
import { createSigningRequest, type SigningRequest } from "./signing_request.ts";

/** A server lets a call wait half a second for its turn, and an election takes seconds. */
const TIMEOUT_MS = 15_000;
/**
 * Servers sign 50 certificates a second by default and refuse what has waited half a second. With pauses
 * by chance up to five seconds, 200 proxies that begin together all have theirs after 6 to 7 s (4 s of
 * signing), and 1,000 after 22 s (20 s); twice the pause makes that 10 and 25 s.
 */
const RETRY_MS = 1_000;
const RETRY_LIMIT_MS = 5_000;
const RETRY_WITH_LEAF_LIMIT_MS = 60_000;
/** However often roots change, and whatever is signed: no sooner than this after the last time. */
const GAP_MS = 1_000;
/** After a rotation all proxies of the mesh come; nobody needs the new certificate at once. */
const ROTATION_SPREAD_MS = 10_000;
/** Timers of runtimes end at 24 days, and the wall clock may be set meanwhile. */
const LOOK_AGAIN_MS = 600_000;

export interface SignedLeafDeps {
  readonly servers: Pick<ConsulServers, "call">;
  readonly roots: RootsFeed;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly stats: Stats;
}

export interface LeafRequest {
  readonly service: string;
  /** The one of the proxy's node. */
  readonly datacenter: string;
}

export function watchSignedLeaf(
  request: LeafRequest,
  options: { readonly sink: WatchSink<Leaf>; readonly deps: SignedLeafDeps },
): WatchHandle {
  return new SignedLeaf(request, options);
}

class SignedLeaf implements WatchHandle {
  readonly #request: LeafRequest;
  readonly #deps: SignedLeafDeps;
  readonly #delivery: Delivery<Leaf>;
  readonly #stop = new AbortController();
  readonly #roots: WatchHandle;
  #known: Roots | undefined;
  /** The leaf in use and what it was judged by. */
  #signed: { readonly leaf: Leaf; readonly activeId: string; readonly renewMs: number } | undefined;
  /** What no certificate has come for so far. */
  #asked: SigningRequest & { readonly uri: string } | undefined;
  /** When a server was asked last. */
  #askedMs = -Infinity;
  /** It will be asked soon because another root is the active one. */
  #isRotating = false;
  #timer: Timer | undefined;
  #signing = false;

  constructor(
    request: LeafRequest,
    options: { readonly sink: WatchSink<Leaf>; readonly deps: SignedLeafDeps },
  ) {
    this.#request = request;
    this.#deps = options.deps;
    const { service } = request;
    this.#delivery = new Delivery({ name: `leaf ${service}`, resource: "leaf" }, {
      ...options,
      signal: this.#stop.signal,
    });
    this.#roots = this.#deps.roots.watch({
      onValue: (roots) => this.#rootsChanged(roots),
      // Who watches the roots is told.
      onError() {},
    });
  }

  get state(): WatchState {
    return this.#delivery.stateWith("poll");
  }

  stop(): void {
    this.#stop.abort();
    this.#timer?.cancel();
    this.#roots.stop();
  }

  #rootsChanged(roots: Roots): void {
    this.#known = roots;
    const signed = this.#signed;
    const isUsable = signed !== undefined && this.#isGood(signed.leaf, roots);
    if (isUsable && signed.activeId === roots.activeId) return;
    if (!isUsable) return this.#signIn(0);
    // More changes before it is done must not put it off.
    if (this.#isRotating) return;
    this.#isRotating = true;
    this.#signIn(ROTATION_SPREAD_MS * this.#deps.random());
  }

  #isGood({ certPem, keyPem, uri }: Leaf, roots: Roots): boolean {
    try {
      judgeSigned({ certPem, keyPem, uri, roots, nowMs: this.#deps.clock.now() });
      return true;
    } catch {
      return false;
    }
  }

  /** Does `fn` after `delayMs`, in place of what was planned. */
  #look(delayMs: number, fn: () => unknown): void {
    this.#timer?.cancel();
    // Who is told of a leaf, or of none, may have stopped it.
    if (this.#stop.signal.aborted) return;
    this.#timer = this.#deps.clock.after(delayMs, () => void fn());
  }

  #signIn(delayMs: number): void {
    const soonestMs = this.#askedMs + GAP_MS - this.#deps.clock.monotonic();
    this.#look(Math.max(delayMs, soonestMs), () => this.#sign());
  }

  #plan(): void {
    const signed = this.#signed;
    if (!signed) return;
    const nowMs = this.#deps.clock.now();
    const leftMs = signed.renewMs - nowMs;
    // A clock that was set back to before the leaf is told of by asking.
    if (leftMs <= 0 || nowMs < signed.leaf.notBeforeMs) return this.#signIn(0);
    this.#look(Math.min(leftMs, LOOK_AGAIN_MS), () => this.#plan());
  }

  async #sign(): Promise<void> {
    const roots = this.#known;
    if (!roots || this.#signing) return;
    this.#signing = true;
    this.#isRotating = false;
    this.#askedMs = this.#deps.clock.monotonic();
    try {
      const leaf = await this.#ask(roots);
      const share = 0.5 + 0.15 * this.#deps.random();
      const renewMs = renewalOf(leaf, { share, nowMs: this.#deps.clock.now() });
      this.#signed = { leaf, activeId: roots.activeId, renewMs };
      this.#delivery.succeeded(leaf);
      // Another root may have become the active one meanwhile.
      if (this.#known && this.#known !== roots) this.#rootsChanged(this.#known);
      else this.#plan();
    } catch (error) {
      if (!this.#stop.signal.aborted) this.#failed(toProxyError(error));
    } finally {
      this.#signing = false;
    }
  }

  async #ask(roots: Roots): Promise<Leaf> {
    const { servers, clock } = this.#deps;
    const { service, datacenter } = this.#request;
    const uri = formatServiceId({
      trustDomain: roots.trustDomain,
      partition: "default",
      namespace: "default",
      ...{ datacenter, service },
    });
    if (this.#asked?.uri !== uri) this.#asked = { uri, ...createSigningRequest(uri) };
    const { csrPem, keyPem } = this.#asked;
    const certPem = await servers.call(SIGN, csrPem, {
      timeoutMs: TIMEOUT_MS,
      signal: this.#stop.signal,
    });
    const nowMs = clock.now();
    const leaf = judgeSigned({ certPem, keyPem, uri, roots: this.#known ?? roots, nowMs });
    this.#asked = undefined;
    return leaf;
  }

  #failed(error: ProxyError): void {
    const { clock, random } = this.#deps;
    const hasLeaf = this.#signed && this.#signed.leaf.notAfterMs > clock.now();
    const limitMs = hasLeaf ? RETRY_WITH_LEAF_LIMIT_MS : RETRY_LIMIT_MS;
    const ceilingMs = Math.min(limitMs, RETRY_MS * 2 ** Math.min(this.#delivery.failures, 10));
    const retryMs = ceilingMs * random();
    this.#delivery.failed(named(error, this.#request.service), {
      retry_ms: Math.round(retryMs),
    });
    this.#look(retryMs, () => this.#sign());
  }
}

/**
 * By a clock that is far ahead the time has passed for every new leaf: then what is left of it counts, or
 * it would be asked for without end.
 */
function renewalOf(
  { notBeforeMs, notAfterMs }: Leaf,
  { share, nowMs }: { readonly share: number; readonly nowMs: number },
): number {
  const plannedMs = notBeforeMs + (notAfterMs - notBeforeMs) * share;
  return Math.max(plannedMs, nowMs + (notAfterMs - nowMs) * share / 2);
}

/** Consul names the right; who reads it wants to know what for. */
function named(error: ProxyError, service: string): ProxyError {
  if (error.code !== "agent_forbidden") return error;
  return new ProxyError(
    error.code,
    `${error.message} (the certificate of ${JSON.stringify(service)} takes service:write on it)`,
    { cause: error },
  );
}
