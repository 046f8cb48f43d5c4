import { CONSUL } from "../kit/mesh/consul.ts";
import { unfollowedKeys } from "../stories/unfollowed_keys.ts";

unfollowedKeys(CONSUL);
