/** Limits, endpoints and applications that refuse: a condition from the first refusal to a quiet while. @module */

import type { Clock, Conditions, ErrorCode, NewEvent, Timer } from "../../base/mod.ts";
import type { RefusalView } from "./view.ts";

/** Without a refusal for so long, it is over. */
const QUIET_MS = 10_000;
/** Listeners and codes at a time; others are counted by the metrics alone. */
const LIMIT = 100;

const LIMITS: ReadonlySet<string> = new Set<ErrorCode>([
  "overloaded",
  "limit_reached",
  "rate_limited",
]);
const FAILURES: ReadonlySet<string> = new Set<ErrorCode>([
  "endpoint_untrusted",
  "no_endpoint",
  "endpoint_refused",
  "endpoint_timed_out",
  "local_refused",
]);

interface Refusing {
  readonly about: Pick<NewEvent, "kind" | "subject">;
  readonly what: string;
  count: number;
  /** At the last look. */
  seen: number;
}

export class RefusalConditions {
  readonly #clock: Pick<Clock, "after">;
  readonly #conditions: Conditions;
  readonly #refusing = new Map<string, Refusing>();
  #timer: Timer | undefined;

  constructor(clock: Pick<Clock, "after">, conditions: Conditions) {
    this.#clock = clock;
    this.#conditions = conditions;
  }

  readonly refused = (refusal: RefusalView, reason: string): void => {
    const { code, direction, listener } = refusal;
    const kind = kindOf(refusal);
    if (!kind) return;
    const key = `refuses ${direction} ${listener} ${code}`;
    const known = this.#refusing.get(key);
    if (known) return void known.count++;
    if (this.#refusing.size >= LIMIT) return;
    const what = `${refusal.path === "" ? "connections" : "requests"} ${
      direction === "inbound" ? "at" : "to"
    } ${listener}`;
    const about = { kind, subject: listener };
    this.#refusing.set(key, { about, what, count: 1, seen: 0 });
    const verb = kind === "endpoint" ? "fail" : "are refused";
    const by = refusal.deniedBy && ` by ${refusal.deniedBy}`;
    const why = reason && `: ${reason}`;
    const text = `${what} ${verb} with ${code}${by}${why}`;
    this.#conditions.began(key, { ...about, text, severity: "warn" });
    this.#timer ??= this.#clock.after(QUIET_MS, () => this.#look());
  };

  close(): void {
    this.#timer?.cancel();
  }

  #look(): void {
    this.#timer = undefined;
    for (const [key, refusing] of this.#refusing) {
      const { about, what, count, seen } = refusing;
      refusing.seen = count;
      if (count > seen) continue;
      this.#refusing.delete(key);
      const code = key.slice(key.lastIndexOf(" ") + 1);
      const text = `no more ${what} end with ${code}`;
      this.#conditions.ended(key, { ...about, text }, count);
    }
    if (this.#refusing.size > 0) this.#timer = this.#clock.after(QUIET_MS, () => this.#look());
  }
}

function kindOf({ code, direction, deniedBy }: RefusalView): NewEvent["kind"] | undefined {
  if (LIMITS.has(code)) return "limit";
  if (FAILURES.has(code)) return "endpoint";
  // Over TCP the other side cannot say that an intention denies us.
  if (code === "refused_by_peer") return "intention";
  // Denials of callers are answers to them, as the rule says.
  const isOurs = direction === "outbound" && (code === "intention_denied" || deniedBy !== "");
  return isOurs ? "intention" : undefined;
}
