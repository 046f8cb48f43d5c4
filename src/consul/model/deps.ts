/** What nearly every part takes as arguments: time, chance, log and metrics. @module */

import type { Clock, Log, Random, Stats } from "../../base/mod.ts";

export interface CommonDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly stats: Stats;
}
