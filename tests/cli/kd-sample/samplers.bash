# For tests that try every sampler.

options_of() # SAMPLER: noise where it is not by itself, and steps
{
    case $1 in
    euler|heun|dpm_2) echo --steps 3 --s-churn 2 ;;
    dpm_fast)         echo --steps 3 --eta 1 ;;
    dpm_adaptive)     echo --rtol 1 --atol 1 --eta 1 ;;
    *)                echo --steps 3 ;;
    esac
}
