/**
 * How a connection ended, and the side that ended it.
 *
 * @module
 */

import { type ErrorCode, type Origin, originOf } from "../../base/mod.ts";
import type { RelayEnd } from "../../net/mod.ts";

/** In order, or with a code from the table. */
export type Ending =
  | { readonly kind: "completed"; readonly by: "downstream" | "upstream" }
  | {
    readonly kind: "failed";
    readonly code: ErrorCode;
    readonly reason: string;
    /** The proxy ended a connection that was relaying, whichever side the code blames. */
    readonly by?: "proxy" | undefined;
    /** The same failure was warned of a short while ago. */
    readonly quiet?: boolean;
  };

export function endedByOf(ending: Ending): Origin {
  return ending.kind === "completed" ? ending.by : ending.by ?? originOf(ending.code);
}

/** The ending of a connection whose relay is over. */
export function endingOf(end: RelayEnd): Ending {
  if (end.kind === "ended") return { kind: "completed", by: end.first };
  return {
    kind: "failed",
    code: end.by === "downstream" ? "downstream_reset" : "endpoint_reset",
    reason: "",
  };
}
