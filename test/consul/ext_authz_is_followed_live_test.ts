import { CONSUL } from "../kit/mesh/consul.ts";
import { extAuthz } from "../stories/ext_authz.ts";

extAuthz(CONSUL);
