/**
 * The token of a login, while the proxy lives: renewed by another login before it ends, replaced when the
 * servers do not know it any more, and given back at the end. A failed login is tried again whatever the
 * reason: files may appear later, and auth methods and rules may be mended.
 *
 * @module
 */

import {
  Backoff,
  type ErrorCode,
  messageOf,
  ProxyError,
  sleep,
  type Timer,
} from "../../../base/mod.ts";
import type { CommonDeps, LoginStatus } from "../../model/consul.ts";
import type { CallToken } from "../../http/token.ts";
import type { Login, LoginCalls } from "./login_calls.ts";

type LoginTokenDeps = Omit<CommonDeps, "stats">;

interface Held extends Login {
  /** Time of the login, monotonic and by the wall clock. */
  readonly sinceMs: number;
  readonly sinceWallMs: number;
  readonly renewAfterMs: number | undefined;
  /** For this long it is not replaced, even if a server does not know it. */
  readonly settleMs: number;
}

/** Share of a token's life: the clocks may differ, and logins may fail for a while. */
const RENEW_SHARE = 0.8;
const RENEW_SPREAD = 0.05;
const RENEW_SOONEST_MS = 5_000;
/** Interval of looks at the clock: a machine that slept has stopped timers and a clock that jumped. */
const LOOK_MS = 60_000;
/** A server that lags does not know a new token for a moment. */
const SETTLE_MS = 5_000;
/** For tokens that are refused one after the other. */
const SETTLE_LIMIT_MS = 60_000;
const SETTLED_MS = 600_000;
/** Time in which calls with the old token end, or are sent again with the new one. */
const GRACE_MS = 10_000;
const RETRY_MS = 1_000;
const RETRY_LIMIT_MS = 30_000;
/** Many proxies move together. */
const MOVE_SPREAD_MS = 500;
const END_MS = 5_000;

/** Calls that wait for the login fail with these codes, too. */
const SHARED: ReadonlySet<ErrorCode> = new Set([
  "agent_unreachable",
  "agent_overloaded",
  "config_invalid",
]);

export class LoginToken implements CallToken {
  readonly #authMethod: string;
  readonly #deps: LoginTokenDeps;
  readonly #backoff: Backoff;
  readonly #onChange = new Set<() => void>();
  /** Replaced secrets, until they are logged out. */
  readonly #replaced = new Map<string, Timer>();
  readonly #leaving = new Set<Promise<void>>();
  #calls: LoginCalls | undefined;
  #coming = comingToken();
  #held: Held | undefined;
  #attempt: Promise<void> | undefined;
  #timer: Timer | undefined;
  #lastFailure = "";
  #ended: Promise<void> | undefined;

  constructor(authMethod: string, deps: LoginTokenDeps) {
    const { random } = deps;
    this.#authMethod = authMethod;
    this.#deps = deps;
    this.#backoff = new Backoff({ baseMs: RETRY_MS, maxMs: RETRY_LIMIT_MS, random });
  }

  /** Logs in, and goes on until {@link end}. */
  start(calls: LoginCalls): void {
    this.#calls = calls;
    this.#begin();
  }

  current(): string {
    return this.#held?.secret ?? "";
  }

  get coming(): Promise<void> | undefined {
    return this.#held ? undefined : this.#coming.promise;
  }

  get status(): LoginStatus {
    const held = this.#held;
    const lastLoginMs = held?.sinceWallMs;
    return {
      authMethod: this.#authMethod,
      accessorId: held?.accessorId ?? "",
      lastLoginMs,
      expiresMs: lastLoginMs && held?.lifeMs && lastLoginMs + held.lifeMs,
      failures: this.#backoff.failures,
      lastFailure: this.#lastFailure,
    };
  }

  onChange(fn: () => void): () => void {
    this.#onChange.add(fn);
    return () => this.#onChange.delete(fn);
  }

  rejected(token: string): void {
    const held = this.#held;
    // A rejection of an earlier token is ignored, and while logins fail the next one is due anyway.
    if (!held || token !== held.secret || this.#backoff.failures > 0) return;
    if (this.#attempt || this.#ended || this.#monotonicAgeMs(held) < held.settleMs) return;
    const fields = { accessor_id: held.accessorId };
    this.#deps.log.warn("consul does not know the token any more, logging in again", fields);
    this.#begin();
  }

  /** Another server is in use from now on: a login may succeed there. */
  moved(): void {
    if (this.#backoff.failures === 0 || this.#ended) return;
    const { clock, random } = this.#deps;
    this.#timer?.cancel();
    this.#timer = clock.after(MOVE_SPREAD_MS * random(), () => this.#begin());
  }

  /** Logs out, for good; resolves when that is done, or after 5 s. */
  end(): Promise<void> {
    return this.#ended ??= this.#end();
  }

  #begin(): void {
    const calls = this.#calls;
    if (!calls || this.#attempt) return;
    this.#timer?.cancel();
    if (this.#lastFailure !== "") this.#coming = comingToken();
    this.#attempt = this.#logIn(calls).finally(() => this.#attempt = undefined);
  }

  async #logIn(calls: LoginCalls): Promise<void> {
    const { clock } = this.#deps;
    const since = { sinceMs: clock.monotonic(), sinceWallMs: clock.now() };
    try {
      const login = await calls.logIn();
      const renewAfterMs = this.#renewAfterMs(login);
      this.#take({ ...login, ...since, renewAfterMs, settleMs: this.#settleMs() });
    } catch (error) {
      this.#failed(error);
    }
  }

  #renewAfterMs({ lifeMs }: Login): number | undefined {
    if (lifeMs === undefined) return undefined;
    const share = RENEW_SHARE - RENEW_SPREAD * this.#deps.random();
    return Math.max(RENEW_SOONEST_MS, lifeMs * share);
  }

  /** For the next token: longer where the last one was refused early. */
  #settleMs(): number {
    const before = this.#held;
    if (!before || this.#monotonicAgeMs(before) >= SETTLED_MS || this.#isDue(before)) {
      return SETTLE_MS;
    }
    return Math.min(SETTLE_LIMIT_MS, 2 * before.settleMs);
  }

  #take(next: Held): void {
    const before = this.#held;
    this.#held = next;
    this.#backoff.reset();
    this.#lastFailure = "";
    this.#deps.log.info("logged in to consul", {
      auth_method: this.#authMethod,
      accessor_id: next.accessorId,
      ...next.lifeMs !== undefined && { expires_in_ms: next.lifeMs },
    });
    if (before && before.secret !== next.secret) this.#replace(before.secret);
    if (this.#ended) return;
    this.#plan();
    this.#coming.resolve();
    for (const fn of [...this.#onChange]) fn();
  }

  #failed(error: unknown): void {
    const { clock, log } = this.#deps;
    const message = messageOf(error);
    const isShared = error instanceof ProxyError && SHARED.has(error.code);
    const code = isShared ? error.code : "agent_failed";
    this.#coming.reject(new ProxyError(code, message, { cause: error }));
    if (this.#ended) return;
    const delayMs = this.#backoff.next();
    // A repeated reason is logged at debug level.
    log[message === this.#lastFailure ? "debug" : "warn"]("not logged in to consul; trying again", {
      error: message,
      delay_ms: Math.round(delayMs),
      ...this.#held && { accessor_id: this.#held.accessorId },
    });
    this.#lastFailure = message;
    this.#timer = clock.after(delayMs, () => this.#begin());
  }

  #plan(): void {
    const held = this.#held;
    if (held?.renewAfterMs === undefined) return;
    if (this.#isDue(held)) return this.#begin();
    const leftMs = held.renewAfterMs - this.#ageMs(held);
    this.#timer?.cancel();
    this.#timer = this.#deps.clock.after(Math.min(leftMs, LOOK_MS), () => this.#plan());
  }

  #isDue(held: Held): boolean {
    return held.renewAfterMs !== undefined && this.#ageMs(held) >= held.renewAfterMs;
  }

  /** Age by the clock that advanced more: one stops while a machine sleeps, the other can be set. */
  #ageMs(held: Held): number {
    return Math.max(this.#monotonicAgeMs(held), this.#deps.clock.now() - held.sinceWallMs);
  }

  #monotonicAgeMs({ sinceMs }: Held): number {
    return this.#deps.clock.monotonic() - sinceMs;
  }

  #replace(secret: string): void {
    const timer = this.#deps.clock.after(GRACE_MS, () => {
      this.#replaced.delete(secret);
      this.#logOut(secret);
    });
    this.#replaced.set(secret, timer);
  }

  #logOut(secret: string): void {
    const calls = this.#calls;
    if (!calls) return;
    const { log } = this.#deps;
    const failed = "not logged out of consul, the token stays until it expires";
    const leaving = calls.logOut(secret).then(
      () => log.debug("logged out of consul"),
      (error: unknown) => log.warn(failed, { error: messageOf(error) }),
    ).finally(() => this.#leaving.delete(leaving));
    this.#leaving.add(leaving);
  }

  async #end(): Promise<void> {
    this.#timer?.cancel();
    const over = new AbortController();
    const late = sleep(this.#deps.clock, END_MS, over);
    await Promise.race([this.#logOutAll(), late]);
    over.abort();
  }

  async #logOutAll(): Promise<void> {
    // A login that runs gives a token, which has to be given back, too.
    await this.#attempt;
    const secrets = new Set(this.#replaced.keys());
    for (const timer of this.#replaced.values()) timer.cancel();
    if (this.#held) secrets.add(this.#held.secret);
    for (const secret of secrets) this.#logOut(secret);
    await Promise.all(this.#leaving);
  }
}

/** Its rejection need not be awaited. */
function comingToken(): PromiseWithResolvers<void> {
  const coming = Promise.withResolvers<void>();
  coming.promise.catch(() => {});
  return coming;
}
