/** Words of commands that are printed for a shell. @module */

/** `id`: `dc1/node/web-1-sidecar-proxy`, as of instances from Consul. */
export function proxyFlag(id: string): string | undefined {
  const [, proxyId] = /^[^/]+\/[^/]+\/(.+)$/.exec(id) ?? [];
  if (proxyId === undefined) return undefined;
  const [, serviceId] = /^(.+)-sidecar-proxy$/.exec(proxyId) ?? [];
  return serviceId === undefined
    ? `-proxy-id ${shellWord(proxyId)}`
    : `-sidecar-for ${shellWord(serviceId)}`;
}

export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
