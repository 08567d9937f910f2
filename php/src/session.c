/* Sessions. */
#include "php_scrubjay.h"

void sjx_session_register(bool drop_in)
{
}
