/**
 * The store of secrets with every kind of source that this program knows.
 *
 * @module
 */

import type { Clock, Log, Random, Stats } from "../../base/mod.ts";
import { createProviders, type SecretsEngine, SecretStore } from "../../secrets/mod.ts";
import { VERSION } from "./version.ts";

export interface SecretStoreDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly stats: Stats;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly engine: SecretsEngine;
}

export function createSecretStore(deps: SecretStoreDeps): SecretStore {
  const { clock, random, log, stats } = deps;
  const providers = createProviders({ ...deps, version: VERSION });
  return new SecretStore({ clock, random, log, stats, providers });
}
