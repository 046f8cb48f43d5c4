/** A store of secrets on a fake clock, with sources whose events the test sets. @module */

import assert from "node:assert/strict";
import { type NewEvent, seededRandom, Stats } from "../../../src/base/mod.ts";
import { type CredentialsState, type SecretSource, SecretStore } from "../../../src/secrets/mod.ts";
import { FakeClock } from "../clock/clock.ts";
import {
  certificateSecret,
  credentialsPlan,
  FakeProviders,
  recordingLog,
  secretRef,
  validationSecret,
} from "./secret_peers.ts";

export const FILE: SecretSource & { readonly kind: "spec" } = {
  kind: "spec",
  watch: true,
  spec: {
    type: "certificate",
    chain: { kind: "file", path: "/etc/tls/web.pem" },
    key: { kind: "file", path: "/etc/tls/web.key" },
  },
};
export const SECRET_FILE: SecretSource = { kind: "secret_file", path: "/etc/envoy/web.yaml" };
export const WORKLOAD: SecretSource & { readonly kind: "workload" } = {
  kind: "workload",
  address: { kind: "unix", path: "/run/s.sock" },
};
export const CONSUL: SecretSource = { kind: "consul" };

export interface StoreWorld {
  readonly clock: FakeClock;
  readonly providers: FakeProviders;
  readonly stats: Stats;
  readonly log: ReturnType<typeof recordingLog>;
  readonly store: SecretStore;
  /** The reported events, oldest first. */
  readonly reported: readonly ReportedSecret[];
  /** The credentials held for a listener, `web` unless another is named. */
  readonly state: (key?: string) => CredentialsState | undefined;
  /** How often a change was announced. */
  readonly changes: number;
  /** Labels and values of a metric. */
  readonly valueOf: (name: string) => readonly Readonly<Record<string, unknown>>[];
}

interface ReportedSecret {
  readonly kind: string;
  readonly detail: string;
}

/** The parts of `rotated (file /web.pem): serial 02`. */
export function reportedSecret({ text }: NewEvent): ReportedSecret {
  const [, kind = "", detail = ""] = /^([a-z ]+) \(.*?\): (.*)$/s.exec(text) ?? [];
  return { kind, detail };
}

export function storeWorld(): StoreWorld {
  const clock = new FakeClock();
  const providers = new FakeProviders();
  const stats = new Stats();
  const log = recordingLog();
  const reported: ReportedSecret[] = [];
  const store = new SecretStore({
    clock,
    random: seededRandom(1),
    log,
    stats,
    report: (event) => void reported.push(reportedSecret(event)),
    providers: providers.factory,
  });
  let changes = 0;
  store.onChange = () => void changes++;
  const state = (key = "web") => store.held.credentials[key];
  return {
    clock,
    providers,
    stats,
    log,
    store,
    reported,
    state,
    get changes() {
      return changes;
    },
    valueOf: (name: string) =>
      stats.samples().filter((sample) => sample.name === name).map(({ labels, value }) => ({
        ...labels,
        value,
      })),
  };
}

export const WEB = credentialsPlan({ certificates: [secretRef("web")] });
export const WEB_MTLS = credentialsPlan({
  certificates: [secretRef("web")],
  validation: { secret: secretRef("ca", { type: "validation" }) },
});
export const CERTIFICATE = certificateSecret("01");
export const BUNDLE = validationSecret("root");

export function openOf(state: CredentialsState | undefined): CredentialsState & { kind: "open" } {
  assert.equal(state?.kind, "open");
  return state as CredentialsState & { kind: "open" };
}
