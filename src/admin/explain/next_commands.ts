/**
 * The commands that explain the same request once more, on the hosts of the instances that get it.
 *
 * @module
 */

import { parseServiceId } from "../../identity/mod.ts";
import type { ExplainedSplit, ExplainedTarget } from "./explanation_view.ts";
import { endingOf, instancesOf } from "./verdict.ts";

/** Most commands that are listed. */
const MOST = 5;

/** A command for each split that goes on to one service of the mesh. */
export function nextCommands(
  splits: readonly ExplainedSplit[],
  ownUri: string,
): readonly string[] {
  const commands = splits.flatMap((split) => {
    const { verdict } = endingOf(split);
    if (verdict !== "allow" && verdict !== "failing") return [];
    const [instance] = instancesOf(split.targets);
    const target = split.targets.find(({ endpoints }) => endpoints.some((one) => one === instance));
    const proxy = proxyFlag(instance?.id ?? "");
    if (!target?.callee || proxy === undefined) return [];
    const source = shellWord(sourceFor(target, ownUri));
    const { method, path } = split.sent ?? {};
    const request = path === undefined ? "" : ` ${method} ${shellWord(path)}`;
    return [`postern explain ${proxy} -inbound -source ${source}${request}`];
  });
  return [...new Set(commands)].slice(0, MOST);
}

/** `id`: `dc1/node/web-1-sidecar-proxy`, as of instances from Consul. */
function proxyFlag(id: string): string | undefined {
  const [, proxyId] = /^[^/]+\/[^/]+\/(.+)$/.exec(id) ?? [];
  if (proxyId === undefined) return undefined;
  const [, serviceId] = /^(.+)-sidecar-proxy$/.exec(proxyId) ?? [];
  return serviceId === undefined
    ? `-proxy-id ${shellWord(proxyId)}`
    : `-sidecar-for ${shellWord(serviceId)}`;
}

/** A name means a service of the callee's own datacenter. */
function sourceFor({ spiffeUris: [calleeUri = ""] }: ExplainedTarget, ownUri: string): string {
  const own = parseServiceId(ownUri);
  const callee = parseServiceId(calleeUri);
  const isNear = own.kind === "service" && callee.kind === "service" &&
    own.id.datacenter === callee.id.datacenter;
  return isNear ? own.id.service : ownUri;
}

function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
