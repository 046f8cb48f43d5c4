/**
 * `/server_info` in Envoy's shape; further fields are below `postern`.
 *
 * @module
 */

import { stateOf } from "../ready_page.ts";
import type { AdminView } from "../view.ts";
import type { Json } from "./json.ts";

/** `COMMIT/VERSION/Clean/RELEASE/postern`, in the form of Envoy's. */
export function versionText({ commit, version }: AdminView["info"]): string {
  return `${commit}/${version}/Clean/RELEASE/postern`;
}

export async function serverInfo(view: AdminView): Promise<Json> {
  const { version, commit, engine, platform, pid, workers, startedMs, limits, options } = view.info;
  const { name, reasons, warnings, listeners } = await stateOf(view);
  const snapshot = view.snapshot();
  const [, trustDomain = ""] = /^spiffe:\/\/([^/]+)/.exec(snapshot?.credentials?.uri ?? "") ?? [];
  const uptime = `${Math.floor((view.clock.monotonic() - startedMs) / 1_000)}s`;
  return {
    version: versionText(view.info),
    state: name,
    uptime_current_epoch: uptime,
    uptime_all_epochs: uptime,
    hot_restart_version: "disabled",
    command_line_options: { concurrency: workers, log_level: view.logLevel() },
    node: { id: snapshot?.proxyId ?? "", cluster: snapshot?.service ?? "" },
    postern: {
      version,
      commit,
      engine,
      platform,
      pid,
      workers,
      options,
      trust_domain: trustDomain,
      not_ready: reasons,
      warnings,
      listeners,
      limits: { open_files: limits.openFiles ?? "none", max_connections: limits.maxConnections },
    },
  };
}
