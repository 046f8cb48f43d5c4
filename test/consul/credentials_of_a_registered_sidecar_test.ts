import { CONSUL } from "../kit/consul.ts";
import { sidecarCredentials } from "../stories/sidecar_credentials.ts";

sidecarCredentials(CONSUL);
