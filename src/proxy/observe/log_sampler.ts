/** Which lines of an access log are kept: the first rule that matches decides. @module */

import type { Counter, ErrorCode, Stats } from "../../base/mod.ts";
import type { ExchangeRecord } from "../../http/mod.ts";
import type { LogSamplingRule } from "../../snapshot/mod.ts";
import { isStatus } from "./tap.ts";
import { isRefusal } from "./traffic_lists.ts";
import { faultOf } from "./traffic_table.ts";

export class LogSampler {
  readonly #rules: readonly LogSamplingRule[];
  /** Lines that each rule has decided on. */
  readonly #seen: number[];
  readonly #leftOut: Counter;

  constructor(rules: readonly LogSamplingRule[], stats: Stats) {
    this.#rules = rules;
    this.#seen = rules.map(() => 0);
    this.#leftOut = stats.counter(
      "access_log_lines_sampled_out_total",
      "Access log lines and records that a rule of sampling left out",
    );
  }

  /** The number of lines that this one stands for; 0: it is left out. `code`: of a connection's end. */
  rateOf(record: ExchangeRecord, code?: ErrorCode): number {
    const at = this.#rules.findIndex((rule) => matches(rule, record, code));
    const rule = this.#rules[at];
    if (!rule || rule.every === 1) return 1;
    const seen = this.#seen[at] ?? 0;
    this.#seen[at] = (seen + 1) % rule.every;
    if (seen === 0) return rule.every;
    this.#leftOut.add(1);
    return 0;
  }
}

function matches(
  { status, path, slowMs, isDenied }: LogSamplingRule,
  record: ExchangeRecord,
  code: ErrorCode | undefined,
): boolean {
  if (status !== undefined && !isStatus(status, record.status)) return false;
  if (path !== undefined && !record.request?.path.startsWith(path)) return false;
  if (slowMs !== undefined && record.endAt - record.startedAt < slowMs) return false;
  return isDenied === undefined || isDenied === isRefusal(code ?? faultOf(record)?.code ?? "");
}

/** A line with its rate: `sampled=1/100`, in JSON a member. `line` ends with a line feed. */
export function withRate(line: string, rate: number): string {
  if (rate === 1) return line;
  const isJson = line.startsWith("{") && line.endsWith("}\n");
  if (!isJson) return `${line.slice(0, -1)} sampled=1/${rate}\n`;
  const separator = line.length > "{}\n".length ? "," : "";
  return `${line.slice(0, -2)}${separator}"sampled":"1/${rate}"}\n`;
}
