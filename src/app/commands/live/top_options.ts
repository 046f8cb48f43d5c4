/** Choices of `postern top`, also for the command line, which loads no command before it runs. @module */

import type { WhichSidecars } from "../../process/find_admin.ts";

export const TOP_SORTS = ["rate", "errors", "p50", "p99", "bytes", "open"] as const;
export type TopSort = (typeof TOP_SORTS)[number];

export const TOP_KEYS = ["caller", "upstream", "endpoint", "route"] as const;
export type TopKey = (typeof TOP_KEYS)[number];

export interface TopOptions {
  readonly which: WhichSidecars;
  readonly sort: TopSort;
  /** Rows that agree in these are one. */
  readonly by: readonly TopKey[];
  readonly intervalMs: number;
  readonly once: boolean;
  /** Numbers since the start of each proxy, once. */
  readonly total: boolean;
  readonly noColor: boolean;
}
