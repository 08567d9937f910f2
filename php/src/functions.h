/* Functions beside the class. */
#ifndef SJX_FUNCTIONS_H
#define SJX_FUNCTIONS_H

PHP_FUNCTION(scrubjay_serialize);
PHP_FUNCTION(scrubjay_unserialize);

#endif
