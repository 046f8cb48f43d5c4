/** Rules of sampling for access logs: `postern_access_log_sampling`, and `sampling` of a configuration file. @module */

import * as v from "valibot";
import { defined, duration, flag, object, text } from "../../base/schema.ts";
import type { LogSamplingRule } from "../../snapshot/mod.ts";

const MOST_RULES = 32;
const MOST_EVERY = 1_000_000;

const RULE = v.pipe(
  object({
    status: v.optional(
      v.pipe(text(), v.regex(/^[1-5](?:xx|\d\d)$/, "must be a status such as 503 or 5xx")),
    ),
    path: v.optional(
      v.pipe(text(), v.startsWith("/", "must be a prefix of a path, such as /health")),
    ),
    slow: v.optional(duration(1)),
    denied: v.optional(flag()),
    every: v.pipe(
      v.number("must be a number"),
      v.integer("must be a whole number"),
      v.minValue(1, "must be at least 1, which keeps every line"),
      v.maxValue(MOST_EVERY, `must be at most ${MOST_EVERY}`),
    ),
  }),
  v.transform(({ status, path, slow: slowMs, denied: isDenied, every }): LogSamplingRule =>
    defined({ every, status, path, slowMs, isDenied })
  ),
);

/** The first rule that matches decides. */
export const LOG_SAMPLING = v.pipe(
  v.array(RULE, "must be a list"),
  v.maxLength(MOST_RULES, `has more than ${MOST_RULES} rules`),
  v.check(
    (rules) => rules.slice(0, -1).every((rule) => Object.keys(rule).length > 1),
    "has a rule without a condition before its last one: later rules would never decide",
  ),
);
