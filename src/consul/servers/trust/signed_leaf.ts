/**
 * The service's certificate for a key that only this process has had: requested when the roots are known,
 * again between 50 and 65 % of its life (sooner than Consul's agents do), and soon after another root has
 * become the active one. Each request has a new key, so that a stolen key is worth nothing after its
 * certificate. Until the next certificate is good, the last one stays.
 *
 * @module
 */

import { ProxyError, type Timer } from "../../../base/mod.ts";
import { formatServiceId } from "../../../identity/mod.ts";
import type {
  CommonDeps,
  ServiceRef,
  WatchHandle,
  WatchSink,
  WatchState,
} from "../../model/consul.ts";
import type { Leaf, Roots } from "../../model/values.ts";
import { Delivery, toProxyError } from "../../watch/delivery.ts";
import { SIGN } from "../methods.ts";
import type { ConsulServers } from "../types.ts";
import { createSigningRequest, judgeSigned, type SigningRequest } from "./signing_request.ts";
import type { RootsFeed } from "./server_roots.ts";

/** A server lets a call wait half a second for its turn, and an election takes seconds. */
const TIMEOUT_MS = 15_000;
/**
 * Servers sign 50 certificates a second by default and refuse requests that have waited half a second. With
 * random pauses up to five seconds, 200 proxies that start together all have theirs after 6 to 7 s (4 s of
 * signing), and 1,000 after 22 s (20 s); twice the pause makes that 10 and 25 s.
 */
const RETRY_MS = 1_000;
const RETRY_LIMIT_MS = 5_000;
const RETRY_WITH_LEAF_LIMIT_MS = 60_000;
/** The least time between two requests, however often roots change. */
const GAP_MS = 1_000;
/** After a rotation all proxies of the mesh request one; none needs it at once. */
const ROTATION_SPREAD_MS = 10_000;
/** A runtime's timers end at 24 days, and the wall clock may be set meanwhile. */
const LOOK_AGAIN_MS = 600_000;

interface SignedLeafDeps extends CommonDeps {
  readonly servers: Pick<ConsulServers, "call">;
  readonly roots: RootsFeed;
}

/** `datacenter`: that of the proxy's node. */
type LeafRequest = Pick<ServiceRef, "service" | "datacenter">;

interface SignedLeafOptions {
  readonly sink: WatchSink<Leaf>;
  readonly deps: SignedLeafDeps;
}

export function watchSignedLeaf(request: LeafRequest, options: SignedLeafOptions): WatchHandle {
  return new SignedLeaf(request, options);
}

class SignedLeaf implements WatchHandle {
  readonly #wanted: LeafRequest;
  readonly #deps: SignedLeafDeps;
  readonly #delivery: Delivery<Leaf>;
  readonly #stop = new AbortController();
  readonly #roots: WatchHandle;
  #known: Roots | undefined;
  /** The leaf in use, with the roots that it was judged by. */
  #signed: { readonly leaf: Leaf; readonly activeId: string; readonly renewMs: number } | undefined;
  /** The request that has no certificate yet. */
  #pending: SigningRequest & { readonly uri: string } | undefined;
  /** Time of the last request. */
  #requestedMs = -Infinity;
  /** A request is due soon because another root is the active one. */
  #isRotating = false;
  #timer: Timer | undefined;
  #signing = false;

  constructor(request: LeafRequest, options: SignedLeafOptions) {
    this.#wanted = request;
    this.#deps = options.deps;
    const { signal } = this.#stop;
    const question = { name: `leaf ${request.service}`, resource: "leaf" };
    this.#delivery = new Delivery(question, { ...options, signal });
    this.#roots = this.#deps.roots.watch({
      onValue: (roots) => this.#rootsChanged(roots),
      // Watches of the roots report it.
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
    // More changes until then must not put it off.
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

  /** Calls `fn` after `delayMs`, in place of the timer that runs. */
  #after(delayMs: number, fn: () => unknown): void {
    this.#timer?.cancel();
    // A sink may have stopped the watch.
    if (this.#stop.signal.aborted) return;
    this.#timer = this.#deps.clock.after(delayMs, () => void fn());
  }

  #signIn(delayMs: number): void {
    const soonestMs = this.#requestedMs + GAP_MS - this.#deps.clock.monotonic();
    this.#after(Math.max(delayMs, soonestMs), () => this.#sign());
  }

  #plan(): void {
    const signed = this.#signed;
    if (!signed) return;
    const nowMs = this.#deps.clock.now();
    const leftMs = signed.renewMs - nowMs;
    // A clock that was set back before the leaf makes the request fail with that reason.
    if (leftMs <= 0 || nowMs < signed.leaf.notBeforeMs) return this.#signIn(0);
    this.#after(Math.min(leftMs, LOOK_AGAIN_MS), () => this.#plan());
  }

  async #sign(): Promise<void> {
    const roots = this.#known;
    if (!roots || this.#signing) return;
    this.#signing = true;
    this.#isRotating = false;
    this.#requestedMs = this.#deps.clock.monotonic();
    try {
      const leaf = await this.#requestLeaf(roots);
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

  async #requestLeaf(roots: Roots): Promise<Leaf> {
    const { servers, clock } = this.#deps;
    const { trustDomain } = roots;
    const tenancy = { partition: "default", namespace: "default" };
    const uri = formatServiceId({ trustDomain, ...tenancy, ...this.#wanted });
    if (this.#pending?.uri !== uri) this.#pending = { uri, ...createSigningRequest(uri) };
    const { csrPem, keyPem } = this.#pending;
    const { signal } = this.#stop;
    const certPem = await servers.call(SIGN, csrPem, { timeoutMs: TIMEOUT_MS, signal });
    const nowMs = clock.now();
    const leaf = judgeSigned({ certPem, keyPem, uri, roots: this.#known ?? roots, nowMs });
    this.#pending = undefined;
    return leaf;
  }

  #failed(error: ProxyError): void {
    const { clock, random } = this.#deps;
    const hasLeaf = this.#signed && this.#signed.leaf.notAfterMs > clock.now();
    const limitMs = hasLeaf ? RETRY_WITH_LEAF_LIMIT_MS : RETRY_LIMIT_MS;
    const ceilingMs = Math.min(limitMs, RETRY_MS * 2 ** Math.min(this.#delivery.failures, 10));
    const retryMs = ceilingMs * random();
    this.#delivery.failed(named(error, this.#wanted.service), { retry_ms: Math.round(retryMs) });
    this.#after(retryMs, () => this.#sign());
  }
}

/**
 * A clock that is far ahead is past the time of every new leaf: then the rest of its life counts, or requests
 * would never end.
 */
function renewalOf(
  { notBeforeMs, notAfterMs }: Leaf,
  { share, nowMs }: { readonly share: number; readonly nowMs: number },
): number {
  const plannedMs = notBeforeMs + (notAfterMs - notBeforeMs) * share;
  return Math.max(plannedMs, nowMs + (notAfterMs - nowMs) * share / 2);
}

/** Consul names the right, not its purpose. */
function named(error: ProxyError, service: string): ProxyError {
  if (error.code !== "agent_forbidden") return error;
  const right = `the certificate of ${JSON.stringify(service)} takes service:write on it`;
  return new ProxyError(error.code, `${error.message} (${right})`, { cause: error });
}
